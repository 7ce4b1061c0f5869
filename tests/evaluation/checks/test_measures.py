"""The numbers behind the checks, against brute force, loops, NumPy and SciPy."""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from torch.nn import functional

import decoupled_descent as dd
from decoupled_descent.descent.noise import RowNorms
from decoupled_descent.evaluation.checks import measures
from decoupled_descent.evaluation.checks.diagnosis import diagnose
from decoupled_descent.evaluation.checks.of_evaluations import rows_behind
from tests.evaluation.checks.problems import ODD, clean, names, objective, status, trained, value
from tests.oracles.newton import refits, squared
from tests.problems import normal


def test_spectrum_against_numpy():
    X = normal(300, 100) / 10
    X[:, :3] *= 5
    e = np.linalg.svd(X.numpy(), compute_uv=False) ** 2
    edge = e.mean() * (1 + math.sqrt(1 / 3)) ** 2 * (1 + 2 * 100 ** (-2 / 3))
    share = measures.spectrum_share(dd.Rows(X, torch.zeros(300)).gram, 300, 100)
    assert share == pytest.approx(e[e > edge].sum() / e.sum())
    assert 0.3 < share < 0.6


def test_norm_spread_of_elliptical_rows_is_that_of_their_scales():
    """‖x‖² = w‖g‖²: beyond the Gaussian part, the coefficient of variation is that of w, here 1/3
    (and the product of both, of order 1/d)."""
    n, d = 20000, 200
    weights = torch.tensor([2.0, 1.0]).double().repeat(n // 2).unsqueeze(1)
    X = normal(n, d) * weights.sqrt()
    found = measures.norm_spread(dd.Rows(X, torch.zeros(n)))
    assert found == pytest.approx(1 / 3, abs=0.01)


def best(h, direction, jacobian):
    return measures.BestStep(h, direction, jacobian, torch.zeros(len(h)), 1.0, 1.0)


def test_stein_residual_of_gaussian_mixtures_is_zero_and_of_elliptical_ones_known():
    """With g = h³ and h = √w G: Cov(h, g) = 3E[w²], Cov(h) J̄ = 3E[w]²; (1 − c)/(1 + c) apart."""
    n = 400_000
    groups = torch.arange(n) % 2
    G = normal(n, 1)
    weights = torch.where(torch.arange(n) % 4 < 2, 1.6, 0.4).double().unsqueeze(1)
    for h, moment in ((G, 1.0), (G * weights.sqrt(), (1.6**2 + 0.4**2) / 2)):
        J = (3 * h.square()).mean(0, keepdim=True)
        found = measures.stein_residual(best(h, h**3, J), groups)
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
    assert measures.stein_residual(best(h, direction, J), groups) == pytest.approx(expected)
    assert expected > 0


def test_orthogonal_descents_identity_has_its_own_weights():
    """Of long-tailed rows the long ones count for more in J̄, and with it the identity holds."""
    X, y = clean(500, 50)
    weights = torch.from_numpy(np.random.default_rng(0).chisquare(5, (500, 1)) / 5).to(X)
    rows = dd.Rows(X / weights.sqrt(), y)
    run = dd.fit(rows, None, objective(), ODD, 100, progress=False)
    groups, _ = measures.label_groups(rows, run.objective, None)
    found = measures.evaluate_best_step(run, rows)
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
    assert measures.stein_residual(found, groups) < 0.5 * measures.stein_residual(equal, groups)


def test_known_row_norms_count_in_the_identity():
    """With h_i of variance w_i the identity needs J̄ weighted by w, whatever the scale of w."""
    X, y = clean(2000, 100)
    X[:100] *= 3
    noise = RowNorms.within_classes(X, y)
    run = trained(X, y, dd.DecoupledDescent(2.0, 0.98, reduction="mean", noise=noise), 60)
    rows = dd.Rows(X, y)
    groups, _ = measures.label_groups(rows, run.objective, None)
    found = measures.evaluate_best_step(run, rows)
    plain = run.objective.derivatives(run.best_preactivations, y.to(X), run.best_state.head)
    equal = found._replace(jacobian=plain.jacobian.double())
    assert measures.stein_residual(found, groups) < 0.05 < measures.stein_residual(equal, groups)


def test_a_loss_with_constants_of_its_own_is_judged_in_its_dtype():
    X, y = clean(200, 20)
    weights = torch.tensor([1.0, 3.0])

    def weighted(outputs, y):
        return functional.cross_entropy(outputs, y.long(), weights, reduction="none")

    what = dd.Objective(dd.heads.TwoLayer(3, outputs=2, seed=0), weighted)
    run = trained(X.float(), y.long(), steps=10, what=what)
    found = diagnose(X.float(), y.long(), run, task="classification")
    assert not any(math.isnan(f.value) for f in found.findings)
    assert measures.evaluate_best_step(run, dd.Rows(X.float(), y.long())).h.dtype == torch.float64


def test_kurtosis_and_effective_rows_against_scipy():
    h, groups = normal(200, 3) ** 3, torch.zeros(200, dtype=torch.long)
    expected = stats.kurtosis(h.numpy(), axis=0).mean()
    assert measures.excess_kurtosis(h, groups) == pytest.approx(expected)
    losses = h[:, 0].square().numpy()
    assert rows_behind(losses) == pytest.approx(200 / (stats.kurtosis(losses) + 3))


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
        groups, classes = measures.label_groups(dd.Rows(X, y), what, task)
        assert classes is expected
        assert groups.shape == (60,)
        found = diagnose(X, y, None, None, what, task=task)
        assert ("smallest class" in names(found)) is expected


def test_groups_of_a_real_response_are_of_like_response():
    y = normal(200)
    groups, _ = measures.label_groups(dd.Rows(normal(200, 2), y), None, "regression")
    sizes = torch.bincount(groups)
    assert len(sizes) == measures.GROUPS
    assert sizes.min() >= measures.GROUP_ROWS - 1
    bounds = [(float(y[groups == k].min()), float(y[groups == k].max())) for k in range(len(sizes))]
    assert all(low[1] <= high[0] for low, high in itertools.pairwise(bounds))


def test_correlations_of_neighbours_as_defined():
    r = np.random.default_rng(0)
    X, groups = torch.tensor(r.normal(size=(30, 5))), torch.tensor(r.integers(0, 2, 30))
    X, q = X.cumsum(0), torch.tensor(r.normal(size=(30, 3))).cumsum(0)
    rows = dd.Rows(X - X.mean(0), groups.double())
    blank = torch.zeros(1)
    best = measures.BestStep(blank, q, blank, blank, 1.0, 0.0)
    _, _, axes = np.linalg.svd(rows.X.numpy(), full_matrices=False)
    correlations = []
    for axis in axes:
        u = rows.X.numpy() @ axis
        u = u - np.array([u[groups == group].mean() for group in groups])
        correlations.append(sum(u[i] * u[i + 1] for i in range(29)) / sum(u**2))
    e = q.numpy() - q.numpy().mean(0)
    erring = sum(e[i] @ e[i + 1] for i in range(29)) / (e**2).sum()
    expected = min(np.median(correlations), erring)
    assert expected > 0.2
    assert measures.neighbour_correlation(best, rows, groups) == pytest.approx(expected, abs=1e-10)


def test_blocks_are_left_out_as_literal_refits_leave_them_out():
    """The mean rise, and its standard error from sums over blocks, by refits without each block."""
    X, y = normal(60, 5, seed=1).double(), normal(60, 1, seed=2)[:, 0].double()
    y[:30] += 1  # the halves differ, so that neighbours tell of each other
    model = dd.Objective(dd.heads.Linear(intercept=True), "squared")
    rows = dd.Rows(X, y)
    run = dd.fit(rows, None, model, dd.DecoupledNewton(1.0))
    blocks = measures.blocks_left_out(run, rows, torch.zeros(60, dtype=torch.long))
    generator = torch.Generator().manual_seed(0)
    parts = torch.arange(60).split(3 * measures.NEARBY_BLOCKS)
    order = torch.cat([p[torch.randperm(len(p), generator=generator)] for p in parts]).numpy()
    losses = []
    for order_of_rows in (np.arange(60), order):
        left_out = refits(X.numpy(), y.numpy(), squared, 1.0, groups=order_of_rows // 3)
        losses.append(0.5 * (left_out[:, 0] - y.numpy()) ** 2)
    rise = losses[0] - losses[1]
    assert blocks.rise().mean == pytest.approx(rise.mean(), rel=1e-8)
    spread = math.sqrt((rise.reshape(20, 3).sum(1) ** 2).sum()) / 60
    assert blocks.rise().stderr == pytest.approx(spread, rel=1e-8)
    alone = 0.5 * (refits(X.numpy(), y.numpy(), squared, 1.0)[:, 0] - y.numpy()) ** 2
    above = blocks.rise_above(torch.from_numpy(alone))
    assert above.mean == pytest.approx((losses[1] - alone).mean(), rel=1e-8)


def test_errors_of_rows_that_were_not_left_out_are_noticed():
    """A wrong estimate, here the error of the fit, rises when a few other rows leave."""
    X, y = normal(80, 60, seed=1).double(), (normal(80, 1, seed=2)[:, 0] > 0).double()
    rows, algorithm = dd.Rows(X, y), dd.DecoupledNewton(0.1)
    run = dd.fit(rows, None, dd.Objective(dd.heads.Linear(intercept=True), "logistic"), algorithm)
    right = dd.diagnose(rows, None, run)
    assert status(right, "rows left out in blocks") == "ok"
    fitted = run.objective.loss.of(run.predict(X), y)
    best = replace(run.best, info=run.best.info._replace(losses=fitted))
    wrong = dd.diagnose(rows, None, replace(run, best=best))
    assert value(wrong, "rows left out in blocks") > 10
    assert wrong.verdict == "do not trust"


def discrete(rows=300):
    rng = np.random.default_rng(0)
    X = np.stack([rng.integers(20, 60, rows), rng.integers(2, size=rows)], 1)
    return torch.from_numpy(X).double(), torch.from_numpy(rng.integers(2, size=rows)).double()


def test_sorted_by_label_by_columns_or_not():
    X, y = discrete()
    both = np.lexsort((*X.T.numpy(), y.numpy()))
    assert measures.sorting(y[both], X[both]) == (True, True)
    assert measures.sorting(y[both].flip(0), X[both].flip(0)) == (True, True)
    assert measures.sorting(y, X) == (False, False)
    alone = torch.argsort(y, stable=True)
    assert measures.sorting(y[alone], X[alone]) == (True, False)  # rows of a class as they came
    who = torch.arange(300) // 10
    assert measures.sorting((who % 2).double(), normal(30, 3)[who]) == (False, False)


def test_distinct_targets_in_order_leave_no_other_order():
    X, y = discrete()
    y = y + normal(300, 1).squeeze(1)
    order = torch.argsort(y)
    assert measures.sorting(y[order], X[order]) == (True, True)
    assert measures.sorting(y, X) == (False, False)
