"""Each alarm fires on data made for it and is silent on clean ones; the verdict follows."""

import itertools
import json
import math

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.descent.noise import Covariance, RowNorms
from decoupled_descent.diagnostics import alarms
from decoupled_descent.diagnostics.diagnosis import RULES, WIDENING, Diagnosis, Finding, diagnose
from decoupled_descent.validation.sweep import Sweep
from tests.problems import normal

ODD = dd.OrthogonalDecoupledDescent(2.0, 0.98, 10.0, reduction="mean")
WHITE = dd.DecoupledDescent(2.0, 0.98, reduction="mean")
GD = dd.GradientDescent(2.0, reduction="mean")


def clean(n=600, d=60, seed=0):
    return dd.mixtures.flipped_classes(d, 2.0, labels=(0.0, 1.0)).sample(n, seed=seed)


def objective(outputs=1, loss="logistic", width=3):
    return dd.Objective(dd.heads.TwoLayer(width, outputs=outputs, bias=True, seed=0), loss)


def trained(X, y, algorithm=ODD, steps=60, what=None):
    return dd.fit(X, y, what or objective(), algorithm, steps, progress=False)


def status(diagnosis, name):
    (found,) = [finding for finding in diagnosis.findings if finding.name == name]
    return found.status


def value(diagnosis, name):
    (found,) = [finding for finding in diagnosis.findings if finding.name == name]
    return found.value


# Clean data ------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("algorithm", [None, ODD, WHITE], ids=["none", "odd", "dd"])
def test_clean_rows_pass_every_check(seed, algorithm):
    diagnosis = diagnose(*clean(seed=seed), algorithm=algorithm)
    assert diagnosis.verdict == "trust", str(diagnosis)
    assert not any(math.isnan(f.value) for f in diagnosis.findings)


@pytest.mark.parametrize("seed", range(5))
def test_a_clean_run_is_trusted(seed):
    X, y = clean(1000, seed=seed)
    diagnosis = diagnose(X, y, trained(X, y))
    assert diagnosis.verdict == "trust", str(diagnosis)
    assert {"correction", "Stein's identity", "tails of h"} <= {f.name for f in diagnosis.findings}


# One alarm each --------------------------------------------------------------------------------


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_copies_are_found_and_priced(jitter):
    X, y = clean()
    X[300:] = X[:300] + jitter * normal(300, 60, seed=1).to(X) / 60**0.5
    y[300:] = y[:300]
    diagnosis = diagnose(X, y)
    # every row has a twin, and before training the correction counts as ½√min(n, d)
    assert value(diagnosis, "twin rows") == pytest.approx(0.5 * 60**0.5, rel=1e-6)
    assert diagnosis.verdict == "do not trust"
    assert "100.0%" in next(f for f in diagnosis.findings if f.name == "twin rows").reason


def test_copies_make_a_run_optimistic_as_predicted():
    """The alarm's point: the train error of a run on copied rows is far below its test error."""
    rows, labels = clean(4400, 200, seed=2)
    X, y = rows[:400].clone(), labels[:400].clone()
    X[200:], y[200:] = X[:200], y[:200]
    run = dd.fit(X, y, objective(), ODD, 100, test=(rows[400:], labels[400:]), progress=False)
    miss = float(run.gap[run.best_step] / run.train_error_stderr[run.best_step])
    found = diagnose(X, y, run)
    assert miss < -2
    assert status(found, "twin rows") == "alarm"
    assert value(found, "twin rows") > 2


def test_few_columns_are_no_twins():
    """In two columns many of 500 rows lie close together; that is not copying."""
    X, y = clean(500, 2)
    assert alarms.twin_share(X) < 0.1
    assert status(diagnose(X, y), "twin rows") != "alarm"


def test_long_tailed_rows():
    X, y = clean()
    weights = torch.from_numpy(np.random.default_rng(0).chisquare(3, (600, 1)) / 3).to(X)
    diagnosis = diagnose(X / weights.sqrt(), y)
    assert status(diagnosis, "row norms") in ("caution", "alarm")
    assert status(diagnose(X, y), "row norms") == "ok"


def test_outliers_alarm_by_norm_and_leverage():
    X, y = clean()
    X[0] *= 100
    assert status(diagnose(X, y, algorithm=WHITE), "row norms") == "alarm"
    diagnosis = diagnose(X, y)
    assert status(diagnosis, "row norms") == "caution"  # every row has its own leverage there
    assert status(diagnosis, "leverage") == "alarm"
    infinite = dd.OrthogonalDecoupledDescent(0.1, 0.9, math.inf)
    assert value(diagnose(X, y, algorithm=infinite), "leverage") == 0


def test_known_row_norms_are_not_held_against_the_algorithm():
    X, y = clean()
    X[:3] *= 30
    noise = dd.DecoupledDescent(0.1, noise=RowNorms.within_classes(X, y))
    assert "row norms" not in {f.name for f in diagnose(X, y, algorithm=noise).findings}


def test_coloured_noise_is_held_against_white_descent_alone():
    X, y = clean(400, 200)
    coloured = X * torch.arange(1, 201).to(X) ** -0.5
    coloured = coloured / coloured.square().sum(1).mean().sqrt()
    assert status(diagnose(coloured, y, algorithm=WHITE), "spectrum") == "alarm"
    assert "spectrum" not in {f.name for f in diagnose(coloured, y, algorithm=ODD).findings}
    known = dd.DecoupledDescent(0.1, noise=Covariance(torch.eye(200)))
    assert "spectrum" not in {f.name for f in diagnose(coloured, y, algorithm=known).findings}


def test_scale_matters_to_white_descent_alone():
    X, y = clean()
    assert status(diagnose(0.5 * X, y, algorithm=WHITE), "scale") == "alarm"
    assert diagnose(0.5 * X, y, algorithm=ODD).verdict == "trust"


@pytest.mark.parametrize(("n", "expected"), [(40, "alarm"), (80, "caution"), (100, "ok")])
def test_few_rows(n, expected):
    assert status(diagnose(*clean(n, 10)), "rows") == expected


@pytest.mark.parametrize(("count", "expected"), [(3, "alarm"), (10, "caution"), (20, "ok")])
def test_rare_class(count, expected):
    X, y = clean()
    y[:] = 0
    y[:count] = 1
    assert status(diagnose(X, y), "smallest class") == expected


def test_few_rows_per_column():
    assert status(diagnose(*clean(200, 150)), "rows per column") == "caution"


def test_gradient_descent_is_caught_by_kind_and_by_evidence():
    X, y = clean(300, 200)
    diagnosis = diagnose(X, y, trained(X, y, GD, 300))
    assert diagnosis.verdict == "do not trust"
    assert status(diagnosis, "uncorrected error") == status(diagnosis, "memorised rows") == "alarm"
    assert status(diagnose(X, y, algorithm=GD), "uncorrected error") == "alarm"


def test_kinks_and_greedy_descent_are_no_obstacle():
    X, y = clean(200, 20)
    kinked = dd.Objective(dd.heads.TwoLayer(3, "relu", seed=0), "logistic")
    assert diagnose(X, y, trained(X, y, GD, 5, kinked)).verdict == "do not trust"
    greedy = diagnose(X, y, trained(X, y, dd.GreedyDescent.grid(1.0, reduction="mean"), 20))
    assert {"spectrum", "correction"} <= {f.name for f in greedy.findings}


def test_a_large_correction_widens_the_interval():
    X, y = clean(200, 400)
    run = trained(X, y, dd.OrthogonalDecoupledDescent(2.0, 0.98, 1.0, reduction="mean"), 150)
    found = next(f for f in diagnose(X, y, run).findings if f.name == "correction")
    h = run.best_state.preactivations.T
    losses = [
        run.objective.losses(at, y.to(X), run.best_state.head).double()
        for at in (h, X @ run.best_theta.T)
    ]
    naive = float((losses[0] - losses[1]).mean() / run.best_losses.double().std())
    assert found.value == pytest.approx(naive, rel=1e-3)
    assert found.status != "ok"
    assert f"by {math.hypot(1, WIDENING * naive):.1f}" in found.advice


def test_one_row_behind_the_standard_error():
    """Far apart classes and a single label turned: its loss is all the variance there is."""
    mixture = dd.mixtures.flipped_classes(20, 12.0, flip=0.0, labels=(0.0, 1.0))
    X, y = mixture.sample(400, seed=0)
    assert y.unique().tolist() == [0.0, 1.0]
    y[0] = 1 - y[0]
    diagnosis = diagnose(X, y, trained(X, y, steps=60))
    assert value(diagnosis, "rows behind the error") < 2
    assert diagnosis.verdict == "do not trust"


@pytest.mark.parametrize(
    ("loss", "said"), [("logistic", "accuracy"), ("squared", "median absolute error")]
)
def test_few_rows_behind_the_error_call_for_another_measure(loss, said):
    X, y = clean(200, 20)
    diagnosis = diagnose(X, y, trained(X, y, steps=5, what=objective(loss=loss)))
    (found,) = [f for f in diagnosis.findings if f.name == "rows behind the error"]
    assert found.advice.startswith(f"report the {said}")


@pytest.mark.parametrize(
    ("algorithm", "tails", "identity"), [(ODD, "caution", "ok"), (WHITE, "alarm", "caution")]
)
def test_a_run_on_long_tailed_rows_shows_them(algorithm, tails, identity):
    """By the tails of h, and where long rows have no more say in J̄ than others, by Stein's too."""
    X, y = clean(400, 200)
    X[:4] *= 10
    diagnosis = diagnose(X, y, trained(X, y, algorithm, 150))
    assert status(diagnosis, "tails of h") == tails
    assert status(diagnosis, "Stein's identity") == identity


def test_a_head_that_fits_its_rows():
    X, y = clean(200, 20)
    without = dd.OrthogonalDecoupledDescent(2.0, 0.9, 10.0, reduction="mean")
    wide = dd.Objective(dd.heads.Deep([10, 10], bias=True, seed=0), "logistic")
    assert status(diagnose(X, y, trained(X, y, without, 20, wide)), "head") != "ok"
    frozen = dd.OrthogonalDecoupledDescent(2.0, 0.9, 10.0, reduction="mean", head_lr=0)
    assert value(diagnose(X, y, trained(X, y, frozen, 20, wide)), "head") == 0


def test_a_sweep_has_its_winners_curse():
    X, y = clean()
    results = dd.sweep(X, y, objective(), [ODD, WHITE], 20, seed=[0, 1], progress=False)
    diagnosis = diagnose(X, y, results)
    optimism = results.corrected_error.optimism / float(
        results.best.train_error_stderr[results.best.best_step]
    )
    assert value(diagnosis, "winner's curse") == pytest.approx(optimism, rel=1e-4)
    single = Sweep(results.names[:1], results.runs[:1])
    assert "winner's curse" not in {f.name for f in diagnose(X, y, single).findings}


def test_a_diverged_run_is_a_caution():
    X, y = dd.mixtures.xor(100, 8.0).sample(200, seed=0)
    what = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    with pytest.warns(dd.DivergenceWarning):
        run = trained(X, y, dd.OrthogonalDecoupledDescent(0.5), 2000, what)
    assert status(diagnose(X, y, run), "divergence") == "caution"


def test_small_corrections_make_assumptions_moot():
    X, y = clean(1000, 3)
    X[:5] *= 5
    run = trained(X, y, steps=20)
    diagnosis = diagnose(X, y, run)
    assert abs(alarms.look(run, dd.Rows(X, y)).correction) < 1
    assert status(diagnose(X, y), "row norms") != "ok"
    assert status(diagnosis, "row norms") == "ok"
    assert "harmless" in next(f for f in diagnosis.findings if f.name == "row norms").reason


# The numbers -----------------------------------------------------------------------------------


def test_twin_share_by_brute_force():
    n, d = 60, 8
    X = normal(n, d, seed=3)
    X[50:] = X[:10] * 1.001
    twins = 0
    for i in range(n):
        shares = sorted(
            float((X[i] - X[j]).square().sum() / (X[i].square().sum() + X[j].square().sum()))
            for j in range(n)
            if j != i
        )
        usual = shares[math.ceil(math.sqrt(n)) - 1] * n ** (-1 / d)
        twins += shares[0] < min(alarms.TWIN, alarms.UNUSUAL * usual)
    assert alarms.twin_share(X) == twins / n == 20 / 60


def mixed(n, numbers, levels, seed=0):
    """Independent rows of Gaussian numbers and one-hot categories, every column standardised."""
    rng = np.random.default_rng(seed)
    hot = [np.eye(k)[rng.integers(k, size=n)] for k in levels]
    X = np.hstack([rng.normal(size=(n, numbers)), *hot])
    return torch.from_numpy((X - X.mean(0)) / X.std(0) / X.shape[1] ** 0.5)


@pytest.mark.parametrize("n", [300, 1000, 3000])
@pytest.mark.parametrize("levels", [(5,), (3, 3), (20, 20), (5, 5, 5)], ids=str)
@pytest.mark.parametrize("numbers", [1, 2, 3])
def test_rows_that_share_categories_are_no_copies(n, levels, numbers):
    """They lie on lines, planes or in cells of a few rows, however many columns there are."""
    X = mixed(n, numbers, levels)
    assert alarms.twin_share(X) * 0.5 * X.shape[1] ** 0.5 < RULES["twin rows"].caution / 2


@pytest.mark.parametrize("jitter", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize(("numbers", "levels"), [(2, (5,)), (3, (4, 5)), (2, (20, 20))], ids=str)
def test_copies_among_rows_that_share_categories(numbers, levels, jitter):
    X = mixed(500, numbers, levels)
    noise = normal(100, numbers) / X.shape[1] ** 0.5
    X[400:] = X[:100]
    X[400:, :numbers] += jitter * noise
    assert alarms.twin_share(X) == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_small_groups_of_copies(jitter):
    """Fifteen of each, when the √n-th neighbour is the eighteenth: another group's."""
    X = normal(20, 30).repeat(15, 1)
    X += jitter * normal(*X.shape, seed=1)
    assert alarms.twin_share(X) > 0.5


def test_rows_along_a_curve_are_no_copies():
    t = torch.rand(500, 1, generator=torch.Generator().manual_seed(0)).double()
    X = torch.cat([(6 * t).cos(), (6 * t).sin(), (13 * t).cos(), (9 * t).sin()], 1)
    assert alarms.twin_share(X) < 0.05


def test_cells_of_a_discrete_law_are_no_copies():
    """500 rows in 8 cells: each has dozens at distance 0, and so will a new row."""
    assert alarms.twin_share((normal(500, 3) > 0).double()) == 0


def test_twins_among_more_rows_than_are_compared():
    X = normal(alarms.COMPARED + 1000, 20)
    X[1500:] = X[:1500]
    assert alarms.twin_share(X) == 1


def test_spectrum_against_numpy():
    X = normal(300, 100) / 10
    X[:, :3] *= 5
    e = np.linalg.svd(X.numpy(), compute_uv=False) ** 2
    edge = e.mean() * (1 + math.sqrt(1 / 3)) ** 2 * (1 + 2 * 100 ** (-2 / 3))
    share = alarms.spectrum_share(dd.Rows(X, torch.zeros(300)).gram, 300, 100)
    assert share == pytest.approx(e[e > edge].sum() / e.sum())
    assert 0.3 < share < 0.6


def test_norm_spread_of_elliptical_rows_is_that_of_their_scales():
    """‖x‖² = w‖g‖²: beyond the Gaussian part, the coefficient of variation is that of w, here 1/3
    (and the product of both, of order 1/d)."""
    n, d = 20000, 200
    weights = torch.tensor([2.0, 1.0]).double().repeat(n // 2).unsqueeze(1)
    X = normal(n, d) * weights.sqrt()
    found = alarms.norm_spread(X, dd.Rows(X, torch.zeros(n)).gram)
    assert found == pytest.approx(1 / 3, abs=0.01)


def seen(h, direction, jacobian):
    return alarms.Seen(h, direction, jacobian, torch.zeros(len(h)), 1.0, 1.0, 0.0)


def test_stein_residual_of_gaussian_mixtures_is_zero_and_of_elliptical_ones_known():
    """With g = h³ and h = √w G: Cov(h, g) = 3E[w²], Cov(h) J̄ = 3E[w]²; (1 − c)/(1 + c) apart."""
    n = 400_000
    groups = torch.arange(n) % 2
    G = normal(n, 1)
    weights = torch.where(torch.arange(n) % 4 < 2, 1.6, 0.4).double().unsqueeze(1)
    for h, moment in ((G, 1.0), (G * weights.sqrt(), (1.6**2 + 0.4**2) / 2)):
        J = (3 * h.square()).mean(0, keepdim=True)
        found = alarms.stein_residual(seen(h, h**3, J), groups)
        assert found == pytest.approx((moment - 1) / (moment + 1), abs=0.01)


def test_stein_residual_by_loops():
    h, direction, J = normal(50, 2), normal(50, 2, seed=1), normal(2, 2, seed=2)
    groups = torch.arange(50) % 3
    means = [h[groups == k].mean(0) for k in range(3)]
    products = torch.zeros(50, 2, 2, dtype=torch.float64)
    spread = torch.zeros(2, 2, dtype=torch.float64)
    q = direction - h @ J.T
    inner = [q[groups == k].mean(0) for k in range(3)]
    for i in range(50):
        left, right = h[i] - means[groups[i]], q[i] - inner[groups[i]]
        products[i] = torch.outer(left, right)
        spread += torch.outer(left, left) / 50
    off = products.mean(0)
    noise = float(products.var(0, correction=0).sum()) / 50
    size = float((spread @ J.T).norm() + (off + spread @ J.T).norm())
    expected = math.sqrt(max(0.0, float(off.square().sum()) - noise)) / size
    assert alarms.stein_residual(seen(h, direction, J), groups) == pytest.approx(expected)
    assert expected > 0


def test_orthogonal_descents_identity_has_its_own_weights():
    """Of long-tailed rows the long ones count for more in J̄, and with it the identity holds."""
    X, y = clean(500, 50)
    weights = torch.from_numpy(np.random.default_rng(0).chisquare(5, (500, 1)) / 5).to(X)
    rows = dd.Rows(X / weights.sqrt(), y)
    run = dd.fit(rows, None, objective(), ODD, 100, progress=False)
    groups, _ = alarms.label_groups(rows, run.objective, None)
    found = alarms.look(run, rows)
    plain = run.objective.derivatives(run.best_preactivations, rows.y, run.best_state.head)
    equal = found._replace(jacobian=plain.jacobian.double())
    shares = rows.gram.leverages(10.0)
    torch.testing.assert_close(
        found.jacobian,
        run.objective.derivatives(
            found.h, rows.y.double(), {k: v.double() for k, v in run.best_state.head.items()},
            weights=shares / shares.mean(),
        ).jacobian,
        rtol=1e-5, atol=1e-8,
    )  # fmt: skip
    assert alarms.stein_residual(found, groups) < 0.5 * alarms.stein_residual(equal, groups)


def test_a_loss_with_constants_of_its_own_is_judged_in_its_dtype():
    X, y = clean(200, 20)
    weights = torch.tensor([1.0, 3.0])

    def weighted(outputs, y):
        return functional.cross_entropy(outputs, y.long(), weights, reduction="none")

    what = dd.Objective(dd.heads.TwoLayer(3, outputs=2, seed=0), weighted)
    run = trained(X.float(), y.long(), steps=10, what=what)
    found = diagnose(X.float(), y.long(), run, task="classification")
    assert not any(math.isnan(f.value) for f in found.findings)
    assert alarms.look(run, dd.Rows(X.float(), y.long())).h.dtype == torch.float64


def test_kurtosis_and_effective_rows_against_scipy():
    h, groups = normal(200, 3) ** 3, torch.zeros(200, dtype=torch.long)
    expected = stats.kurtosis(h.numpy(), axis=0).mean()
    assert alarms.excess_kurtosis(h, groups) == pytest.approx(expected)
    losses = h[:, 0].square()
    rows = 200 / (stats.kurtosis(losses.numpy()) + 3)
    assert alarms.rows_behind(losses) == pytest.approx(rows)


@pytest.mark.parametrize("algorithm", [None, WHITE], ids=["odd", "dd"])
def test_data_findings_do_not_depend_on_order_or_basis(algorithm):
    X, y = clean(200, 30)
    X[:2] *= 4
    X[100:110] = X[90:100]
    first = {f.name: f.value for f in diagnose(X, y, algorithm=algorithm).findings}
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    basis = torch.linalg.qr(normal(30, 30)).Q.to(X)
    for other in (diagnose(X[order], y[order], algorithm=algorithm),
                  diagnose(X @ basis, y, algorithm=algorithm)):  # fmt: skip
        assert {f.name: f.value for f in other.findings} == pytest.approx(first, rel=1e-4)


# The verdict -----------------------------------------------------------------------------------


def finding(state, name="a"):
    return Finding(name, 1.0, "caution from 2", state, "why", "do this")


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ([], "trust"),
        (["ok", "ok"], "trust"),
        (["ok", "caution", "caution"], "caution"),
        (["caution", "alarm", "ok"], "do not trust"),
    ],
)
def test_verdict_is_that_of_the_worst_finding(states, verdict):
    diagnosis = Diagnosis(tuple(finding(state) for state in states))
    assert diagnosis.verdict == verdict
    assert diagnosis.summary.startswith(f"{verdict}:")
    assert diagnosis.to_dict()["verdict"] == verdict


def test_text_and_json():
    X, y = clean(40, 60)
    diagnosis = diagnose(X, y, trained(X, y, GD))
    order = [("alarm", "caution", "ok").index(f.status) for f in diagnosis.findings]
    assert order == sorted(order)
    text = str(diagnosis)
    assert text.splitlines()[0] == diagnosis.summary
    assert all(f.name in text for f in diagnosis.findings)
    assert "\x1b" not in text
    back = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert back["verdict"] == "do not trust"
    assert [Finding(**f) for f in back["findings"]] == list(diagnosis.findings)


def test_every_rule_is_used_and_its_words_are_complete():
    X, y = clean(200, 20)
    results = dd.sweep(X, y, objective(), [ODD, WHITE], 5, progress=False)
    diagnoses = [diagnose(X, y), diagnose(X, y, results), diagnose(X, y, trained(X, y, GD, 5))]
    diagnoses += [diagnose(X, y, run) for run in results.runs]
    findings = [f for diagnosis in diagnoses for f in diagnosis.findings]
    assert {f.name for f in findings} == set(RULES)
    assert not any(set("{}") & set(f.reason + f.advice) for f in findings)
    assert not any("inf" in f.threshold for f in findings)


# Edges -----------------------------------------------------------------------------------------

EDGES = {
    "two rows": (normal(2, 3), torch.tensor([0.0, 1.0]), "logistic", 1),
    "one column": (normal(30, 1), (normal(30) > 0).double(), "logistic", 1),
    "constant column": (
        torch.cat([normal(30, 3), torch.zeros(30, 1)], 1),
        (normal(30) > 0).double(),
        "logistic",
        1,
    ),
    "one class": (normal(30, 4), torch.ones(30), "logistic", 1),
    "soft labels": (normal(30, 4), torch.linspace(0, 1, 30), "logistic", 1),
    "five classes": (normal(50, 4), torch.arange(50) % 5, "cross_entropy", 5),
    "regression": (normal(60, 4), normal(60), "squared", 1),
    "constant response": (normal(60, 4), torch.ones(60), "squared", 1),
    "two responses": (normal(60, 4), normal(60, 2), "squared", 2),
    "a zero row": (torch.cat([torch.zeros(2, 3), normal(20, 3)]), torch.arange(22) % 2, "x", 2),
}


@pytest.mark.parametrize("algorithm", [ODD, WHITE, GD], ids=["odd", "dd", "gd"])
@pytest.mark.parametrize("name", EDGES)
@pytest.mark.filterwarnings("ignore::decoupled_descent.ScalingWarning")
def test_edges_have_finite_findings(name, algorithm):
    X, y, loss, outputs = EDGES[name]
    loss = "cross_entropy" if loss == "x" else loss
    if algorithm is ODD and name == "two rows":
        algorithm = dd.OrthogonalDecoupledDescent(2.0, 0.9, 10.0, reduction="mean")
    run = dd.fit(X, y, objective(outputs, loss, 2), algorithm, 5, progress=False)
    for diagnosis in (diagnose(X, y), diagnose(X, y, run), diagnose(X, y, algorithm=algorithm)):
        assert all(math.isfinite(f.value) for f in diagnosis.findings)
        json.dumps(diagnosis.to_dict(), allow_nan=False)
        assert str(diagnosis)


def test_kind_of_labels():
    X = normal(60, 3)
    whole = torch.arange(60) % 2
    real = torch.linspace(0, 1, 60)
    cases = [
        (whole, None, None, True), (real, None, None, False), (torch.arange(60), None, None, False),
        (whole, objective(loss="squared"), None, False), (real, None, "classification", True),
        (torch.arange(60) % 30, objective(30, "cross_entropy"), None, True),
        (whole, None, "regression", False),
    ]  # fmt: skip
    for y, what, task, expected in cases:
        groups, classes = alarms.label_groups(dd.Rows(X, y), what, task)
        assert classes is expected
        assert groups.shape == (60,)
        assert ("smallest class" in {f.name for f in diagnose(X, y, None, None, what, task=task).findings}) is expected  # noqa: E501  # fmt: skip


def test_groups_of_a_real_response_are_of_like_response():
    y = normal(200)
    groups, _ = alarms.label_groups(dd.Rows(normal(200, 2), y), None, "regression")
    sizes = torch.bincount(groups)
    assert len(sizes) == alarms.GROUPS
    assert sizes.min() >= alarms.GROUP_ROWS - 1
    bounds = [(float(y[groups == k].min()), float(y[groups == k].max())) for k in range(len(sizes))]
    assert all(low[1] <= high[0] for low, high in itertools.pairwise(bounds))


def test_refusals():
    X, y = clean(60, 5)
    run = trained(X, y, steps=3)
    with pytest.raises(ValueError, match="the rows that it was trained on"):
        diagnose(X[:50], y[:50], run)
    with pytest.raises(ValueError, match="task='clustering' must be"):
        diagnose(X, y, task="clustering")


@pytest.mark.parametrize(
    ("levels", "rows"), [((5, 5), 300), ((3, 4, 6), 1000), ((12, 12, 12), 2000)]
)
def test_tables_of_categories_are_no_copies(levels, rows):
    """Cells hold a few rows each, fewer than √n: they coincide by chance."""
    generator = torch.Generator().manual_seed(0)
    codes = [torch.randint(k, (rows,), generator=generator) for k in levels]
    X = torch.cat([torch.nn.functional.one_hot(c).double() for c in codes], 1)
    X = (X - X.mean(0)) / X.std(0) / X.shape[1] ** 0.5
    assert alarms.twin_share(X) * 0.5 * X.shape[1] ** 0.5 < RULES["twin rows"].caution


def test_copies_of_rows_of_coarse_numbers_are_found():
    generator = torch.Generator().manual_seed(0)
    X = torch.randint(40, (600, 5), generator=generator).double()
    X = torch.cat([X, X[:120]])
    assert alarms.twin_share(X) == pytest.approx(240 / 720, abs=0.01)
