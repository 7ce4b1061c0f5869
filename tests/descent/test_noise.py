"""Noise that is not i.i.d.: against the oracle, and in what it does to the train–test gap."""

import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent import GreedyDescent
from decoupled_descent.descent.noise import Covariance, RowNorms, White
from tests.oracles import descent as rows_of
from tests.oracles import noise as oracle
from tests.problems import binary, normal, two_layer

STEPS = 101
RATES = {"lr": 0.05, "damping": 0.97, "head_lr": 0.2, "head_damping": 0.99}


def problem():
    """Data, a two-layer head with a bias, and both of their starts as the oracle takes them."""
    rng = np.random.default_rng(0)
    X, theta = rng.standard_normal((30, 20)) / 20**0.5, rng.standard_normal((20, 3))
    y, w = rng.standard_normal(30), rng.standard_normal(3)
    head = dd.heads.TwoLayer(3, bias=True).double()
    with torch.no_grad():
        head[1].weight.copy_(torch.from_numpy(w))
        head[1].bias.fill_(0.3)
    return X, y, theta, {"w": w, "b": np.array(0.3)}, dd.Objective(head, "squared"), rng


def compare(noise, C, w, block_size=None):
    X, y, theta, a, objective, _ = problem()
    rows = rows_of.biased_two_layer_rows()
    path = oracle.iterate(X, y, theta, a, rows, C, w, steps=STEPS, **RATES)
    algorithm = dd.DecoupledDescent(noise=noise, **RATES)
    rows = dd.Rows(X, y, block_size)
    state = algorithm.init(rows, objective, theta=torch.tensor(theta.T))
    for t in range(STEPS):
        before = state
        state, info = algorithm.step(state, rows, objective)
        assert info.train_error == pytest.approx(path.train_error[t], rel=1e-10)
    np.testing.assert_allclose(before.theta.T, path.theta[-1], rtol=0, atol=1e-10)
    np.testing.assert_allclose(before.head["1.bias"].squeeze(), path.head[-1]["b"], atol=1e-10)


def test_covariance_as_matrix_diagonal_and_function():
    rng = np.random.default_rng(1)
    root = rng.standard_normal((20, 20))
    C, diagonal, ones = root @ root.T / 20, rng.uniform(0, 2, 20), np.ones(30)
    compare(Covariance(torch.from_numpy(C)), C, ones)
    compare(Covariance(torch.from_numpy(diagonal)), np.diag(diagonal), ones)
    compare(Covariance(lambda theta: theta @ torch.from_numpy(C), np.trace(C)), C, ones)


def test_white_noise_of_any_variance():
    compare(White(0.07), 0.07 * 20 * np.eye(20), np.ones(30))


def test_white_noise_of_variance_one_is_the_paper_in_other_units():
    """X √d and θ/√d with rate lr/d: the same pre-activations at every step."""
    (X, y), theta, objective = binary(), normal(3, 16), two_layer()
    paper = dd.fit(X, y, objective, dd.DecoupledDescent(0.1), 20, theta=theta)
    algorithm = dd.DecoupledDescent(0.1 / 16, head_lr=0.1, noise=White(1.0))
    own = dd.fit(4 * X, y, objective, algorithm, 20, theta=theta / 4)
    torch.testing.assert_close(own.train_error, paper.train_error, rtol=1e-12, atol=0)
    with pytest.raises(ValueError, match="noise of variance 1/d"):
        algorithm.limit()
    with pytest.raises(ValueError, match=r"variance=0\.0 must be positive"):
        White(0.0)


@pytest.mark.parametrize("block_size", [None, 7])
def test_row_norms(block_size):
    w = np.random.default_rng(2).uniform(0.1, 3, 30)
    compare(RowNorms(torch.from_numpy(w)), np.eye(20), w, block_size)


def test_models_of_the_default_noise_change_nothing():
    (X, y), objective = binary(), two_layer()
    plain = dd.fit(X, y, objective, dd.DecoupledDescent(0.1, 0.9), 20)
    ones = {"noise": Covariance(torch.ones(16).double())}, {"noise": RowNorms(X.new_ones(24))}
    for option in ones:
        run = dd.fit(X, y, objective, dd.DecoupledDescent(0.1, 0.9, **option), 20)
        torch.testing.assert_close(run.train_error, plain.train_error, rtol=1e-12, atol=0)
        torch.testing.assert_close(run.theta, plain.theta, rtol=1e-11, atol=1e-12)


def test_own_directions_can_be_weighted():
    h, y, w = normal(12, 2), normal(12, 2, seed=1), normal(12, seed=2).square()
    objective = dd.Objective(torch.nn.Identity(), "squared", width=2)
    bend = objective.derivatives(h, y, {}, g=lambda h, y, a: h.square(), weights=w).jacobian
    torch.testing.assert_close(bend, torch.diag((w.unsqueeze(1) * 2 * h).mean(0)))


def test_kinks_are_differenced_with_weights():
    X, y = binary(200, 16)
    head = dd.heads.TwoLayer(3, activation="relu", seed=0).double()
    objective = dd.Objective(head, "logistic", curvature="smoothed")
    h, a = X @ normal(16, 3), objective.parameters()
    equal = objective.derivatives(h, y, a, weights=torch.full((200,), 2.0).double()).jacobian
    plain = objective.derivatives(h, y, a).jacobian
    torch.testing.assert_close(equal, 2 * plain)
    half = torch.arange(200) % 2 == 0
    steps = torch.tensor([0.3, 0.4, 0.5]).double()
    some = objective.derivatives(h, y, a, weights=half.double(), spacing=steps).jacobian
    those = objective.derivatives(h[half], y[half], a, spacing=steps).jacobian
    torch.testing.assert_close(some, those / 2)
    noise = Covariance(torch.full((16,), 4.0).double())
    algorithms = [dd.DecoupledDescent(0.05, noise=n) for n in (None, noise, RowNorms(4 * y + 4))]
    state, rows = algorithms[0].init(dd.Rows(X, y), objective, seed=0), dd.Rows(X, y)
    bound = objective.bind(y, 3, X)
    passes = [next(each.stacked_step(state, rows, bound)) for each in algorithms]
    one, other, norms = (each.spacing for each in passes)
    torch.testing.assert_close(other, 2 * one)
    torch.testing.assert_close(norms, one * (4 * y + 4).mean().sqrt())


def draw(n, variances, spread, generator):
    """Two classes at ±3·1/d with a tenth of labels flipped, noise of covariance w_i C/d."""
    d = len(variances)
    sides = torch.randint(0, 2, (n,), generator=generator).double()
    noise = torch.randn(n, d, generator=generator, dtype=torch.float64) * (variances / d).sqrt()
    strengths = 1 + spread * (2 * torch.randint(0, 2, (n,), generator=generator).double() - 1)
    flips = torch.rand(n, generator=generator) < 0.1
    X = (2 * sides - 1).unsqueeze(1) * 3 / d + strengths.sqrt().unsqueeze(1) * noise
    return X, torch.where(flips, 1 - sides, sides)


def gaps(noise_of, variances, spread, objective, damping, seeds=8):
    """Mean over steps of train − test, one per seed: without and with the noise model."""
    result = []
    for seed in range(seeds):
        generator = torch.Generator().manual_seed(seed)
        X, y = draw(len(variances), variances, spread, generator)
        test = draw(4000, variances, spread, generator)
        for noise in (None, noise_of(X, y)):
            algorithm = dd.DecoupledDescent(0.3, damping, noise=noise)
            run = dd.fit(X, y, objective, algorithm, 40, test=test, seed=seed)
            result.append(float(run.gap.mean()))
    return np.array(result).reshape(seeds, 2).T


def assert_closed(plain, modelled, factor):
    """The model's bias is zero within three standard errors; without it, several times as large."""
    bias, error = modelled.mean(), modelled.std(ddof=1) / math.sqrt(len(modelled))
    assert abs(bias) < 3 * error
    saved = np.abs(plain) - factor * np.abs(modelled)
    assert saved.mean() > 3 * saved.std(ddof=1) / math.sqrt(len(saved))


@pytest.mark.slow
def test_known_covariance_closes_the_gap():
    variances = torch.full((1000,), 0.05, dtype=torch.float64)
    variances[:200] = 4.8
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    result = gaps(lambda X, y: Covariance(variances), variances, 0.0, objective, 0.9, 14)
    assert_closed(*result, factor=2)


@pytest.mark.slow
def test_row_norms_close_the_gap():
    variances, objective = torch.ones(1000, dtype=torch.float64), two_layer(4)
    result = gaps(RowNorms.within_classes, variances, 0.9, objective, 0.97)
    assert_closed(*result, factor=1.5)


def test_norms_of_rows_close_the_gap_of_a_strong_signal():
    """A row also moves θ along its own mean, which is not noise: a bias of order 1/n."""
    mixture = dd.mixtures.xor(100, 4.0)
    objective, result = dd.Objective(dd.heads.Product(a=1.0), "logistic"), []
    for seed in range(100):
        X, y = mixture.sample(100, seed=seed)
        test = mixture.sample(2000, seed=1000 + seed)
        for noise in (None, "row norms"):
            algorithm = dd.DecoupledDescent(0.05, noise=noise)
            result.append(float(dd.fit(X, y, objective, algorithm, 6, seed=seed, test=test).gap[5]))
    plain, modelled = np.array(result).reshape(100, 2).T
    assert plain.mean() < -3 * plain.std(ddof=1) / 10
    assert abs(modelled.mean()) < 3 * modelled.std(ddof=1) / 10


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Covariance(torch.ones(3, 4)), "shape"),
        (lambda: Covariance(torch.tensor([[1.0, 2.0], [0.0, 1.0]])), "not symmetric"),
        (lambda: Covariance(torch.tensor([1.0, -1.0])), "variances from -1 to 1"),
        (lambda: Covariance(lambda theta: theta), "positive trace, which is None"),
        (lambda: Covariance("white"), "matrix='white' must be"),
        (lambda: RowNorms(torch.tensor([1.0, -1.0])), "starts at -1"),
        (lambda: RowNorms(torch.ones(3, 2)), r"shape \(3, 2\)"),
        (lambda: RowNorms.within_classes(torch.eye(3), torch.arange(3)), "label 0 has a single"),
    ],
)
def test_bad_models(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("noise", "message"),
    [
        (Covariance(torch.ones(5).double()), r"matrix has shape \(5,\) but X has d = 16"),
        (Covariance(torch.ones(16)), r"matrix is torch.float32.*pass matrix.to\(X\)"),
        (RowNorms(torch.ones(5)), "squares has 5 entries but X has 24 rows"),
        (RowNorms(torch.ones(24)), r"squares is torch.float32.*pass squares.to\(X\)"),
    ],
)
def test_models_of_other_rows(noise, message):
    X, y = binary()
    with pytest.raises(ValueError, match=message):
        dd.fit(X, y, two_layer(), dd.DecoupledDescent(0.1, noise=noise), 2)


def test_a_name_is_the_norms_of_the_rows():
    X, y = binary()
    for algorithm in (dd.DecoupledDescent, dd.GradientDescent):
        for size in (None, 6):
            estimate = {"estimate": True} if algorithm is dd.GradientDescent else {}
            runs = [
                dd.fit(
                    X, y, two_layer(), algorithm(0.1, noise=noise, batch_size=size, **estimate), 5
                )
                for noise in ("row norms", RowNorms(), RowNorms(X.square().sum(1)), None)
            ]
            first, *others = [run.train_error_stderr for run in runs]
            errors = [run.evaluation.error for run in runs]
            torch.testing.assert_close(first, others[0])
            torch.testing.assert_close(first, others[1])
            assert errors[0] == pytest.approx(errors[2], rel=1e-12) != errors[3]
    with pytest.raises(
        ValueError, match="noise='white' must be 'row norms', 'any covariance' or a"
    ):
        dd.DecoupledDescent(0.1, noise="white")


def test_greedy_descent_keeps_the_noise_of_its_candidates():
    (X, y), noise = binary(), Covariance(torch.linspace(0.5, 1.5, 16).double())
    candidates = tuple(dd.DecoupledDescent(lr, noise=noise) for lr in (0.02, 0.1))
    greedy = GreedyDescent(candidates)
    rows, objective = dd.Rows(X, y), two_layer()
    following, _ = greedy.step(greedy.init(rows, objective, seed=0), rows, objective)
    assert following.chosen >= 0
    chosen = candidates[following.chosen]
    alone, _ = chosen.step(chosen.init(rows, objective, seed=0), rows, objective)
    assert torch.equal(following.theta, alone.theta)


def test_what_the_limit_may_assume_of_the_noise():
    variances = torch.rand(10, generator=torch.Generator().manual_seed(0))
    step = dd.DecoupledDescent(0.1, noise=Covariance(variances)).limit()
    assert torch.equal(step.covariance, variances)
    for noise, message in (
        (RowNorms(torch.ones(4)), "no limit for rows of unequal strength"),
        (Covariance(lambda theta: theta, 10.0), "pass its matrix"),
    ):
        with pytest.raises(ValueError, match=message):
            dd.DecoupledDescent(0.1, noise=noise).limit()
