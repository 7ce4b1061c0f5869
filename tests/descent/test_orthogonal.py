"""Orthogonal decoupled descent: against brute force, in its limits, on rows that are not white."""

import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.datasets.embeddings import CATS_DOGS, load_embeddings
from decoupled_descent.datasets.whitening import Whitening
from decoupled_descent.training import StopReason
from tests.descent.test_noise import draw
from tests.descent.test_rules import Momentum
from tests.oracles import descent as rows_of
from tests.oracles import orthogonal as oracle
from tests.problems import binary, normal, two_layer
from tests.real_data import real_data

STEPS = 101
RATES = {"lr": 0.05, "damping": 0.97, "head_lr": 0.2, "head_damping": 0.99}
ODD = dd.OrthogonalDecoupledDescent


def compare(run, path, **names):
    scale = max(1.0, np.abs(path.theta[-1]).max(), np.abs(path.preactivations[-1]).max())
    np.testing.assert_allclose(run.train_error, path.train_error, rtol=1e-10, atol=1e-10 * scale)
    np.testing.assert_allclose(run.theta.T, path.theta[-1], rtol=0, atol=1e-10 * scale)
    h = run.state.preactivations.T
    np.testing.assert_allclose(h, path.preactivations[-1], rtol=0, atol=1e-10 * scale)
    for theirs, ours in names.items():
        result = run.state.head[ours.replace("_", ".")].squeeze()
        np.testing.assert_allclose(result, np.squeeze(path.head[-1][theirs]), rtol=0, atol=1e-10)


@pytest.mark.parametrize("ridge", [0.1, 3.0, math.inf])
@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (50, 8)])
def test_two_layer_against_brute_force(shape, ridge):
    rng = np.random.default_rng(0)
    (n, d), columns = shape, np.linspace(0.2, 2, shape[1])
    X, theta = rng.standard_normal(shape) * columns / d**0.5, rng.standard_normal((d, 3))
    y, w, b = rng.standard_normal(n), rng.standard_normal(3), np.array(0.3)
    head = dd.heads.TwoLayer(3, bias=True).double()
    with torch.no_grad():
        head[1].weight.copy_(torch.from_numpy(w))
        head[1].bias.fill_(0.3)
    algorithm = ODD(ridge=ridge, **RATES)
    run = dd.fit(X, y, dd.Objective(head, "squared"), algorithm, STEPS, theta=torch.tensor(theta.T))
    rows = rows_of.biased_two_layer_rows()
    path = oracle.iterate(X, y, theta, {"w": w, "b": b}, rows, ridge=ridge, steps=STEPS, **RATES)
    compare(run, path, w="1_weight", b="1_bias")


def test_softmax_and_a_non_symmetric_direction_against_brute_force():
    rng = np.random.default_rng(1)
    X, theta = rng.standard_normal((30, 20)) / 20**0.5, rng.standard_normal((20, 3))
    labels = rng.integers(0, 4, 30)
    head = dd.heads.TwoLayer(3, outputs=4, seed=1).double()
    a, start = {"W": head[1].weight.detach().numpy().copy()}, torch.tensor(theta.T)
    run = dd.fit(X, labels, dd.Objective(head, "cross_entropy"), ODD(**RATES), STEPS, theta=start)
    path = oracle.iterate(
        X, labels, theta, a, rows_of.softmax_rows(), ridge=1, steps=STEPS, **RATES
    )
    compare(run, path, W="1_weight")

    rotation, y = torch.from_numpy(np.asarray(rows_of.ROTATION)), rng.standard_normal(30)
    names = {"a": np.array(0.5)}
    rows = rows_of.rotational_rows()._replace(f=lambda h, y, a: {"a": np.array(0.0)})
    algorithm = ODD(
        0.05, 0.97, head_lr=0, g=lambda h, y, a: 0.5 * torch.tanh(h @ rotation.T - y.unsqueeze(1))
    )
    first = dd.Objective(FirstCoordinate(), "squared", width=3)
    run = dd.fit(X, y, first, algorithm, STEPS, theta=start)
    rates = RATES | {"head_lr": 0.0, "head_damping": 1.0}
    compare(run, oracle.iterate(X, y, theta, names, rows, ridge=1, steps=STEPS, **rates))


class FirstCoordinate(torch.nn.Module):
    def forward(self, h):
        return torch.tanh(h[:, 0])


@pytest.mark.parametrize(("n", "d"), [(25, 10), (10, 25)])
def test_least_squares_is_ridge_regression_with_each_row_refitted(n, d):
    """Squared loss has q = −y: one full step from zero is ridge regression, h its refits."""
    X, y, ridge = normal(n, d, seed=3), normal(n, seed=4), 0.7
    mu, c = oracle.shift_and_scale(X.numpy(), ridge)
    algorithm = ODD(1 / c, damping=0, ridge=ridge)
    objective = dd.Objective(dd.heads.Linear(), "squared")
    run = dd.fit(X, y, objective, algorithm, 2, theta=torch.zeros(1, d).double())

    def refit(kept):
        A = X[kept].T @ X[kept] + mu * torch.eye(d, dtype=torch.float64)
        return torch.linalg.solve(A, X[kept].T @ y[kept])

    all_rows = torch.arange(n)
    held_out = torch.stack([X[i] @ refit(all_rows != i) for i in range(n)])
    torch.testing.assert_close(run.theta[0], refit(all_rows), rtol=0, atol=1e-10)
    torch.testing.assert_close(run.state.preactivations[0], held_out, rtol=0, atol=1e-10)
    expected = (held_out - y).square().mean() / 2
    torch.testing.assert_close(run.train_error[-1], expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("rule", [None, Momentum(0.02, 0.8), Momentum(0.05, 0.5, halving=7)])
def test_every_linear_rule_leaves_rows_out(rule):
    """Least squares again, whole runs: h_i is what a run without row i gives to row i.

    Such a run keeps the shift and the scale of all rows, which its own ridge and rate make up for.
    """
    X, y, theta = normal(16, 6, seed=5), normal(16, seed=6), normal(1, 6, seed=7)
    objective, ridge, lr = dd.Objective(dd.heads.Linear(), "squared"), 0.5, 0.02
    options = {"lr": lr, "damping": 0.9} if rule is None else {"lr": lr, "rule": rule}
    run = dd.fit(X, y, objective, ODD(ridge=ridge, **options), 25, theta=theta)
    _, c = oracle.shift_and_scale(X.numpy(), ridge)
    for i in range(len(X)):
        kept = torch.arange(len(X)) != i
        own = ridge * float(X.square().sum() / X[kept].square().sum())
        factor = c / oracle.shift_and_scale(X[kept].numpy(), own)[1]
        if rule is None:
            scaled = options | {"lr": lr * factor}
        else:
            scaled = options | {"rule": Momentum(rule.lr * factor, rule.momentum, rule.halving)}
        without = dd.fit(X[kept], y[kept], objective, ODD(ridge=own, **scaled), 25, theta=theta)
        received = X[i] @ without.theta[0]
        assert abs(float(received - run.state.preactivations[0, i])) < 1e-10


def test_infinite_ridge_is_the_limit():
    (X, y), objective = binary(40, 25), two_layer()
    limit = dd.fit(X, y, objective, ODD(0.05, 0.95, math.inf), 30)
    far = [dd.fit(X, y, objective, ODD(0.05, 0.95, 10.0**k), 30) for k in (3, 4)]
    gaps = [float((run.theta - limit.theta).abs().max()) for run in far]
    assert gaps[0] < 0.05
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=0.05)  # the approach is like 1/λ
    errors = [float((run.train_error - limit.train_error).abs().max()) for run in far]
    assert errors[1] == pytest.approx(errors[0] / 10, rel=0.05)


def test_infinite_ridge_is_decoupled_descent_along_a_divergence_free_direction():
    """On rows of norm one, the paper's general family with g − h J̄ᵀ, J̄ frozen at every step."""
    X, y = binary(40, 25)
    X = X / X.norm(dim=1, keepdim=True)
    objective, theta = two_layer(), normal(3, 25)
    run = dd.fit(X, y, objective, ODD(0.05, 0.95, math.inf, head_lr=0), 30, theta=theta)
    memory, head = torch.zeros(40, 3).double(), objective.parameters()
    for step in range(30):
        h = X @ theta.T + memory
        result = objective.derivatives(h, y, head)
        error = float(result.loss.mean())
        assert error == pytest.approx(run.history.train_error[step], abs=1e-11)
        q = result.direction - h @ result.jacobian.T
        theta, memory = 0.95 * theta - 0.05 * q.T @ X, 0.95 * memory + 0.05 * q


def test_a_sweep_decomposes_once():
    (X, y), objective, ridges = binary(), two_layer(), [0.1, 1.0, 10.0, math.inf]
    with torch.profiler.profile() as profile:
        swept = dd.sweep(X, y, objective, [ODD(0.05, 0.9, ridge) for ridge in ridges], 5)
    names = [event.name for event in profile.events()]
    assert names.count("aten::_linalg_eigh") == 1
    assert swept.names == ("ridge=0.1", "ridge=1", "ridge=10", "ridge=inf")
    for ridge, run in zip(ridges, swept.runs, strict=True):
        alone = dd.fit(X, y, objective, ODD(0.05, 0.9, ridge), 5)
        torch.testing.assert_close(run.train_error, alone.train_error, rtol=1e-12, atol=0)


def test_kinks_are_differenced_over_the_spread_of_the_preactivations():
    X, y = binary(60, 20)
    objective = dd.Objective(
        dd.heads.TwoLayer(3, activation=torch.relu, seed=0).double(),
        "logistic",
        curvature="smoothed",
    )
    rows, algorithm = dd.Rows(X, y), ODD(0.05, 0.9)
    state = algorithm.init(rows, objective, seed=0)
    _, info = algorithm.step(state, rows, objective)
    shares = rows.gram.leave_one_out(1.0).shares
    wanted = objective.derivatives(info.preactivations, y, state.head, weights=shares).jacobian
    torch.testing.assert_close(info.jacobian, wanted)


@pytest.mark.parametrize("ridge", [0, -1.0, float("nan"), "1"])
def test_bad_ridge(ridge):
    with pytest.raises(ValueError, match=f"ridge={ridge!r} must be a positive number, or math.inf"):
        ODD(0.1, ridge=ridge)


def test_a_sweep_finds_a_damping_that_does_not_blow_up():
    """Undamped, a product head on XOR data feeds back without bound; a sweep steps around it."""
    mixture = dd.mixtures.xor(200, 8.0)
    data, test = mixture.sample(200, seed=0), mixture.sample(4000, seed=1)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    grid = [ODD(0.1, damping, 10.0) for damping in (1.0, 0.9)]
    with pytest.warns(dd.DivergenceWarning):
        swept = dd.sweep(*data, objective, grid, 150, test=test, seed=3)
    undamped, damped = swept.runs
    assert undamped.stop_reason is StopReason.DIVERGED
    assert swept.best is damped
    assert torch.isfinite(swept.best.theta).all()
    step = damped.best_step
    assert abs(damped.gap[step]) < 4 * damped.train_error_stderr[step]
    assert damped.test_error[step] < undamped.test_error[undamped.best_step]


def test_options_after_the_ridge_are_named():
    assert ODD(0.1, 0.9, 3.0) == ODD(lr=0.1, damping=0.9, ridge=3.0)
    with pytest.raises(TypeError, match="positional"):
        ODD(0.1, 0.9, 3.0, 0.2)


def test_states_belong_to_their_rows():
    X, y = binary()
    run = dd.fit(X, y, two_layer(), ODD(0.05), 2)
    with pytest.raises(ValueError, match=r"preactivations of shape \(3, 24\), not .* of \(3, 20\)"):
        dd.fit(X[:20], y[:20], two_layer(), ODD(0.05), 2, state=run.state)


@pytest.mark.slow
def test_unknown_covariance_keeps_the_identity():
    """Noise of two strengths in a random basis, n = d: no bias, where plain descent has one."""
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    variances = torch.full((500,), 0.05, dtype=torch.float64)
    variances[:100] = 4.8
    algorithms = {"odd": ODD(0.3, 0.9), "dd": dd.DecoupledDescent(0.3, 0.9)}
    gaps = {name: [] for name in algorithms}
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        turn = torch.linalg.qr(torch.randn(500, 500, generator=generator).double()).Q
        parts = (draw(n, variances, 0.0, generator) for n in (500, 4000))
        data, test = ((X @ turn, y) for X, y in parts)
        for name, algorithm in algorithms.items():
            run = dd.fit(*data, objective, algorithm, 40, test=test, seed=seed)
            gaps[name].append(float(run.gap.mean()))
    bias = {name: np.mean(values) for name, values in gaps.items()}
    error = {name: np.std(values, ddof=1) / 12**0.5 for name, values in gaps.items()}
    assert abs(bias["odd"]) < 3 * error["odd"]
    assert abs(bias["dd"]) > 3 * error["dd"] + 3 * error["odd"]


def long_and_short_rows(n, seed):
    """Elliptical rows with the tails of Student's t₅, and a logistic teacher."""
    generator = torch.Generator().manual_seed(seed)
    options = {"generator": generator, "dtype": torch.float64}
    X, lengths = torch.randn(n, 100, **options) / 10, torch.randn(n, 5, **options).square().mean(1)
    X, teacher = X / lengths.sqrt().unsqueeze(1), torch.randn(100, **options)
    chance = torch.sigmoid(X @ teacher * 40 / torch.linalg.vector_norm(teacher))
    return X, torch.bernoulli(chance, generator=generator)


@pytest.mark.slow
def test_rows_of_unequal_length_keep_the_identity():
    """Rows count in J̄ by their leverage; if they all counted the same, there would be a bias."""
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    algorithm = ODD(20.0, ridge=1.0, reduction="mean")
    gaps = {"leverage": [], "equal": []}
    for seed in range(40):
        X, y = long_and_short_rows(3300, seed)
        for name, values in gaps.items():
            rows = dd.Rows(X[:300], y[:300])
            if name == "equal":
                left_out = rows.gram.leave_one_out(1.0)
                equal = left_out._replace(shares=torch.ones_like(left_out.shares))
                rows.gram._known[1.0] = equal
            theta, test = X.new_zeros(1, 100), (X[300:], y[300:])
            run = dd.fit(rows, None, objective, algorithm, 60, theta, test)
            values.append(float(run.gap[-1]))
    bias = {name: np.mean(values) for name, values in gaps.items()}
    error = {name: np.std(values, ddof=1) / 40**0.5 for name, values in gaps.items()}
    assert abs(bias["leverage"]) < 3 * error["leverage"]
    assert bias["equal"] < -3 * error["equal"]


@pytest.mark.slow
@pytest.mark.data
def test_embeddings_of_cats_and_dogs_without_whitening_or_test_rows():
    """n = 800 of 512 dimensions: the bias over 10 splits is within three of its standard errors."""
    pool = load_embeddings(real_data("cifar10_cats_dogs_resnet18.npz") / f"{CATS_DOGS}.npz")
    algorithms = {
        "odd": ODD(2.0, 0.98, reduction="mean"),
        "gd": dd.GradientDescent(2.0, reduction="mean"),
    }
    gaps = {name: [] for name in algorithms}
    for seed in range(10):
        order = np.random.default_rng(seed).permutation(len(pool.y))[:3800]
        scaling = Whitening("vanilla").fit(pool.X[order[:800]])
        X, y = torch.from_numpy(scaling.transform(pool.X[order])), torch.tensor(pool.y[order])
        objective = dd.Objective(dd.heads.TwoLayer(5, seed=seed), "logistic")
        for name, algorithm in algorithms.items():
            run = dd.fit(X[:800], y[:800].float(), objective, algorithm, 150, seed=seed)
            losses = objective.losses(X[800:] @ run.theta.T, y[800:].float(), run.state.head)
            gaps[name].append(float(run.train_error[-1] - losses.mean()))
    error = np.std(gaps["odd"], ddof=1) / 10**0.5
    assert abs(np.mean(gaps["odd"])) < 3 * error
    assert np.mean(gaps["gd"]) < -6 * error
