"""Each check reacts to data made for it and stays silent on clean ones."""

import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from decoupled_descent.descent.noise import Covariance, RowNorms
from decoupled_descent.evaluation.checks import duplicates, measures
from decoupled_descent.evaluation.checks.catalogue import CHECKS
from decoupled_descent.evaluation.checks.diagnosis import diagnose
from decoupled_descent.evaluation.checks.readings import WIDENING
from decoupled_descent.training.sweeps.sweep import Sweep
from tests.evaluation.checks.problems import (
    GD,
    ODD,
    WHITE,
    clean,
    find,
    grouped_patients,
    names,
    objective,
    status,
    trained,
    value,
)  # fmt: skip
from tests.problems import normal


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_copies_are_found_and_priced(jitter):
    X, y = clean()
    X[300:] = X[:300] + jitter * normal(300, 60, seed=1).to(X) / 60**0.5
    y[300:] = y[:300]
    diagnosis = diagnose(X, y)
    # every row has a twin, and before training the correction counts as ½√min(n, d)
    assert value(diagnosis, "duplicate rows") == pytest.approx(0.5 * 60**0.5, rel=1e-6)
    assert diagnosis.verdict == "do not trust"
    assert "100.0\u00a0%" in find(diagnosis, "duplicate rows").reason


def test_copies_make_a_run_optimistic_as_predicted():
    """The alarm's point: the train error of a run on copied rows is far below its test error."""
    rows, labels = clean(4400, 200, seed=2)
    X, y = rows[:400].clone(), labels[:400].clone()
    X[200:], y[200:] = X[:200], y[:200]
    run = dd.fit(X, y, objective(), ODD, 100, test=(rows[400:], labels[400:]), progress=False)
    miss = float(run.gap[run.best_step] / run.train_error_stderr[run.best_step])
    found = diagnose(X, y, run)
    assert miss < -2
    assert status(found, "duplicate rows") == "alarm"
    assert value(found, "duplicate rows") > 2


def test_few_columns_are_no_twins():
    """In two columns many of 500 rows lie close together; that is not copying."""
    X, y = clean(500, 2)
    assert duplicates.find(dd.Rows(X)).share < 0.1
    assert status(diagnose(X, y), "duplicate rows") != "alarm"


def test_long_tailed_rows():
    X, y = clean()
    weights = torch.from_numpy(np.random.default_rng(0).chisquare(3, (600, 1)) / 3).to(X)
    diagnosis = diagnose(X / weights.sqrt(), y)
    assert status(diagnosis, "row norms") == "note"
    assert status(diagnose(X, y), "row norms") == "ok"


def test_outliers_show_by_norm_and_leverage():
    X, y = clean()
    X[0] *= 100
    assert status(diagnose(X, y, algorithm=WHITE), "row norms") == "note"
    diagnosis = diagnose(X, y)
    assert status(diagnosis, "row norms") == "note"
    assert status(diagnosis, "leverage") == diagnosis.verdict == "caution"
    infinite = dd.OrthogonalDecoupledDescent(0.1, 0.9, math.inf)
    assert value(diagnose(X, y, algorithm=infinite), "leverage") == 0


def test_leverage_above_a_half_is_a_note():
    X, y = clean()
    X[0] *= 8
    diagnosis = diagnose(X, y)
    assert 0.5 < value(diagnosis, "leverage") < 0.9
    assert status(diagnosis, "leverage") == "note"
    assert diagnosis.verdict == "trust"


def test_known_row_norms_are_not_held_against_the_algorithm():
    X, y = clean()
    X[:3] *= 30
    noise = dd.DecoupledDescent(0.1, noise=RowNorms.within_classes(X, y))
    assert "row norms" not in names(diagnose(X, y, algorithm=noise))


def test_coloured_noise_is_held_against_white_descent_alone():
    X, y = clean(400, 200)
    coloured = X * torch.arange(1, 201).to(X) ** -0.5
    coloured = coloured / coloured.square().sum(1).mean().sqrt()
    assert status(diagnose(coloured, y, algorithm=WHITE), "spectrum") == "alarm"
    assert "spectrum" not in names(diagnose(coloured, y, algorithm=ODD))
    known = dd.DecoupledDescent(0.1, noise=Covariance(torch.eye(200)))
    assert "spectrum" not in names(diagnose(coloured, y, algorithm=known))


def test_scale_matters_to_white_descent_alone():
    X, y = clean()
    assert status(diagnose(0.5 * X, y, algorithm=WHITE), "scale") == "alarm"
    assert diagnose(0.5 * X, y, algorithm=ODD).verdict == "trust"


@pytest.mark.parametrize(("n", "expected"), [(40, "alarm"), (80, "note"), (100, "ok")])
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
    greedy = diagnose(X, y, trained(X, y, GreedyDescent.grid(1.0, reduction="mean"), 20))
    assert {"spectrum", "correction"} <= names(greedy)


def test_a_large_correction_widens_the_interval():
    X, y = clean(200, 400)
    run = trained(X, y, dd.OrthogonalDecoupledDescent(2.0, 0.98, 1.0, reduction="mean"), 150)
    found = find(diagnose(X, y, run), "correction")
    h = run.best_state.preactivations.T
    losses = [
        run.objective.losses(at, y.to(X), run.best_state.head).double()
        for at in (h, X @ run.best_theta.T)
    ]
    naive = float((losses[0] - losses[1]).mean() / run.best_losses.double().std())
    assert found.value == pytest.approx(naive, rel=1e-3)
    assert found.status != "ok"
    assert found.widening == pytest.approx(math.hypot(1, WIDENING * naive), rel=1e-3)
    assert f"by {found.widening:.1f}" in found.advice


def test_one_row_behind_the_standard_error():
    """Far apart classes and a single label turned: its loss is all the variance there is."""
    mixture = dd.mixtures.flipped_classes(20, 12.0, flip=0.0, labels=(0.0, 1.0))
    X, y = mixture.sample(400, seed=0)
    assert y.unique().tolist() == [0.0, 1.0]
    y[0] = 1 - y[0]
    diagnosis = diagnose(X, y, trained(X, y, steps=60))
    m = value(diagnosis, "rows behind the error")
    assert m < 2
    assert status(diagnosis, "rows behind the error") == "note"


@pytest.mark.parametrize(
    ("loss", "measure"), [("logistic", "accuracy"), ("squared", "median absolute error")]
)
def test_few_rows_behind_the_error_call_for_another_measure(loss, measure):
    X, y = clean(200, 20)
    diagnosis = diagnose(X, y, trained(X, y, steps=5, what=objective(loss=loss)))
    assert find(diagnosis, "rows behind the error").advice.startswith(f"report the {measure}")


@pytest.mark.parametrize(
    ("algorithm", "identity"), [(ODD, "ok"), (WHITE, "caution")], ids=["odd", "dd"]
)
def test_a_run_on_long_tailed_rows_shows_them(algorithm, identity):
    """By the tails, and by Stein's identity where long rows count in J̄ no more than others."""
    X, y = clean(400, 200)
    X[:4] *= 10
    diagnosis = diagnose(X, y, trained(X, y, algorithm, 60))
    assert status(diagnosis, "long tails") == "note"
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
    losses = results.best.best_losses.double()
    optimism = results.corrected_error.optimism * math.sqrt(len(losses)) / float(losses.std())
    assert value(diagnosis, "winner's curse") == pytest.approx(optimism, rel=1e-4)
    single = Sweep(results.names[:1], results.runs[:1])
    assert "winner's curse" not in names(diagnose(X, y, single))


def test_a_diverged_run_is_a_caution():
    X, y = dd.mixtures.xor(100, 8.0).sample(200, seed=0)
    what = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    with pytest.warns(dd.DivergenceWarning):
        run = trained(X, y, dd.OrthogonalDecoupledDescent(0.5), 2000, what)
    assert status(diagnose(X, y, run), "divergence") == "caution"


def test_small_corrections_make_leverage_harmless():
    X, y = clean(1000, 3)
    X[0] *= 100
    run = trained(X, y, dd.OrthogonalDecoupledDescent(2.0, 0.98, 0.01, reduction="mean"), 20)
    assert abs(measures.evaluate_best_step(run, dd.Rows(X, y)).correction) < 1
    before, after = diagnose(X, y, algorithm=run.algorithm), diagnose(X, y, run)
    assert status(before, "leverage") == "caution"
    assert status(after, "leverage") == "note"
    assert value(before, "leverage") == value(after, "leverage")


def test_steins_alarm_is_for_white_descent_alone():
    """Orthogonal descent counts each row by its leverage, and gets no more than a caution."""
    X, y = clean(400, 200)
    X[:4] *= 10
    runs = [trained(X, y, algorithm, 20) for algorithm in (ODD, WHITE)]
    one, other = (find(diagnose(X, y, run), "Stein's identity") for run in runs)
    assert one.threshold == "caution from 0.5"
    assert other.threshold == "caution from 0.5, alarm from 2"


def patients(count=40, visits=10, seed=0):
    """Rows of the same person are alike and have the same label."""
    r = np.random.default_rng(seed)
    people = r.normal(size=(count, 20))
    ill = 0.7 * people[:, 0] + 1.5 * r.normal(size=count) > 0
    who = np.repeat(np.arange(count), visits)
    return people[who] + 0.5 * r.normal(size=(len(who), 20)), ill[who].astype(int)


def series(n=400, seed=0):
    """Features that change slowly."""
    r = np.random.default_rng(seed)
    rows = np.zeros((n, 6))
    for t in range(1, n):
        rows[t] = 0.97 * rows[t - 1] + 0.25 * r.normal(size=6)
    return rows, r


def overlapping(n=400, days=20):
    """Whether a random walk is higher some days later: of the next day, most of it is the same."""
    rows, r = series(n)
    walk = np.r_[0, np.cumsum(r.normal(size=n + days))]
    return rows, (walk[days : n + days] > walk[:n]).astype(int)


def own_errors():
    rows, r = series()
    return rows, (rows @ r.normal(size=6) + r.logistic(size=400) > 0).astype(int)


def independent(d=20):
    r = np.random.default_rng(1)
    rows = r.normal(size=(400, d))
    return rows, (rows[:, 0] + rows[:, 1] + r.logistic(size=400) > 0).astype(int)


def ordered_by(key, d=20):
    rows, labels = independent(d)
    order = np.argsort(key(rows, labels), kind="stable")
    return rows[order], labels[order]


def finding(rows, labels):
    scaled = (rows - rows.mean(0)) / (rows.std(0) * rows.shape[1] ** 0.5)
    X, y = torch.from_numpy(scaled).float(), torch.from_numpy(labels).float()
    head = dd.heads.Deep((8,), "tanh", 1, bias=True, seed=0)
    algorithm = dd.OrthogonalDecoupledDescent(1.0, 0.95, 1.0, reduction="mean")
    run = dd.fit(X, y, dd.Objective(head, "logistic"), algorithm, 100, progress=False)
    diagnosis = diagnose(X, y, run)
    return find(diagnosis, "neighbouring rows"), diagnosis.verdict


@pytest.mark.parametrize("make", [patients, lambda: patients(200, 2), overlapping])
def test_rows_that_belong_together_in_order(make):
    found, verdict = finding(*make())
    assert found.status == "alarm"
    assert verdict == "do not trust"
    assert "keep one of each group" in found.advice


@pytest.mark.parametrize(
    "make",
    [
        independent,
        own_errors,
        lambda: ordered_by(lambda rows, labels: labels),
        lambda: ordered_by(lambda rows, labels: rows[:, 0]),
        lambda: ordered_by(lambda rows, labels: rows[:, 0], d=4),
        lambda: ordered_by(lambda rows, labels: rows[:, 0], d=2),
        lambda: ordered_by(lambda rows, labels: 10 * labels + rows[:, 0], d=4),
    ],
    ids=["in no order", "slow features", "label", "column", "of four", "of two", "label, column"],
)
def test_orders_that_do_no_harm(make):
    assert finding(*make())[0].status == "ok"


def test_a_model_that_memorises_its_rows_gets_a_caution():
    X, y = (part[:100] for part in clean(2100, 180, seed=4))
    wide = dd.OrthogonalDecoupledDescent(2.0, 0.999, 1.0, reduction="mean")
    early, late = (
        diagnose(X, y, trained(X, y, wide, steps, objective(width=12))) for steps in (20, 800)
    )
    assert status(early, "fitted error") == "ok"
    assert status(late, "fitted error") == "caution"
    assert 0.15 < value(late, "fitted error") < 0.4
    assert "fitted error" not in names(diagnose(X, y, trained(X, y, WHITE)))


@pytest.mark.parametrize("order", ["as they stand", "shuffled", "with groups"])
def test_rows_that_belong_together_are_seen_where_they_stand_together(order):
    X, y, who = grouped_patients(0)
    if order == "shuffled":
        places = np.random.default_rng(1).permutation(len(y))
        X, y = X[places], y[places]
    model = dd.DecoupledClassifier(features="rbf(0.5)", ridge=0.3)
    model.fit(X, y, groups=who if order == "with groups" else None)
    found = {one.name: one.status for one in model.diagnostics_.findings}
    if order == "with groups":
        assert "rows that belong together" not in found
    else:
        expected = "alarm" if order == "as they stand" else "ok"
        assert found["rows that belong together"] == expected
    assert "neighbouring rows" not in found


def test_sorted_tables_are_no_groups():
    """Independent rows sorted by their label, or by a column, are left out as well as others."""
    for key in (lambda rows, labels: labels, lambda rows, labels: rows[:, 0]):
        rows, labels = ordered_by(key)
        model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(rows, labels)
        assert status(model.diagnostics_, "rows that belong together") == "ok"


def test_what_the_newton_method_corrects_for_is_a_note():
    """Few rows of a class and a choice among several leave its estimates right."""
    rng = np.random.default_rng(0)
    y = np.r_[np.ones(8, int), np.zeros(72, int)]
    X = rng.normal(size=(80, 4)) + y[:, None]
    model = dd.DecoupledClassifier(features=["linear", "rbf(1)"]).fit(X, y)
    assert status(model.diagnostics_, "smallest class") == "note"
    assert status(model.diagnostics_, "winner's curse") in ("ok", "note")
    assert model.diagnostics_.verdict == "trust"
    three = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X[6:], y[6:])
    assert status(three.diagnostics_, "smallest class") == "caution"


def passengers(rows=300, seed=0):
    """A few frequent values in each column, of which many rows are equal by chance."""
    rng = np.random.default_rng(seed)
    age, sex, rank = (
        rng.integers(20, 60, rows),
        rng.integers(2, size=rows),
        rng.integers(3, size=rows),
    )
    X = np.stack([age, sex, rank], 1).astype(float)
    return X, (rng.random(rows) < 1 / (1 + np.exp(2 * sex - rank))).astype(int)


def test_the_order_of_a_table_does_not_change_the_verdict():
    """Sorted or shuffled, the rows are the same; rows equal by chance are no copies."""
    X, y = passengers()
    orders = {
        "shuffled": np.arange(len(y)), "label": np.argsort(y, kind="stable"),
        "label, columns": np.lexsort((*X.T, y)), "columns, label": np.lexsort((y, *X.T)),
        "columns": np.lexsort(X.T),
    }  # fmt: skip
    for name, order in orders.items():
        model = dd.DecoupledClassifier(features="laplace1(0.5)", ridge=0.3).fit(X[order], y[order])
        found = {one.name: one.status for one in model.diagnostics_.findings}
        assert found["duplicate rows"] == "ok", name
        assert found.get("rows that belong together", "ok") == "ok", name


def test_standard_errors_of_groups_count_groups():
    """The choice among candidates is measured by the error of groups, not of their rows."""
    X, y, who = grouped_patients(1)
    model = dd.DecoupledClassifier(features=["linear", "rbf"]).fit(X, y, groups=who)
    losses = -np.log(model.corrected_proba_[np.arange(len(y)), y])
    sums = np.bincount(who, losses - losses.mean())
    grouped, alone = (
        sums.std(ddof=1) * len(sums) ** 0.5 / len(y),
        losses.std(ddof=1) / len(y) ** 0.5,
    )
    assert grouped > 1.2 * alone  # so that it matters
    assert model.estimated_test_error_stderr_ > 0.9 * grouped
    assert model.diagnostics_.verdict != "do not trust"


def test_every_check_asks_a_question_of_its_own():
    questions = [check.question for check in CHECKS]
    assert all(one.endswith("?") for one in questions)
    assert len(set(questions)) == len(questions)


@pytest.mark.parametrize("loss", ["logistic", "squared"])
@pytest.mark.parametrize(("n", "expected"), [(12, "alarm"), (30, "caution"), (60, "ok")])
def test_a_verdict_needs_as_many_rows_for_classes_as_for_numbers(n, expected, loss):
    X = normal(n, 3, seed=0).double()
    y = (torch.arange(n) % 2).double() if loss == "logistic" else X[:, 0] + 0.5
    rows, linear = dd.Rows(X, y), dd.Objective(dd.heads.Linear(intercept=True), loss)
    run = dd.fit(rows, None, linear, dd.DecoupledNewton(1.0))
    assert status(diagnose(rows, None, run), "few rows") == expected
