"""Mixtures: moments mode by mode within standard errors, the paper's examples, seeds."""

import math

import pytest
import torch

import decoupled_descent as dd
from tests.problems import normal

MEANS = 3 * normal(3, 5, seed=9)
WEIGHTS = [0.2, 0.3, 0.5]
N = 60_000


@pytest.mark.parametrize(
    ("noise", "kurtosis"),
    [("gaussian", 3.0), ("three_point", 2.0), ("rademacher", 1.0), ("uniform", 1.8)],
)
def test_moments_mode_by_mode(noise, kurtosis):
    mixture = dd.GaussianMixture(MEANS, WEIGHTS, [0.0, 1.0, 2.0], noise)
    X, y, modes = mixture.sample_with_modes(N, seed=0, dtype=torch.float64)
    assert torch.equal(y, modes.double())
    d = MEANS.shape[1]
    for j, (mean, weight) in enumerate(zip(MEANS, WEIGHTS, strict=True)):
        centred = X[modes == j] - mean / d
        m = len(centred)
        assert abs(m / N - weight) < 4 * math.sqrt(weight * (1 - weight) / N)
        assert centred.mean(0).abs().max() < 4.5 / math.sqrt(d * m)
        second = d * centred.T @ centred / m
        diagonal = 4.5 * math.sqrt((kurtosis - 1) / m) + 1e-12
        assert (second.diagonal() - 1).abs().max() < diagonal
        assert (second - torch.diag(second.diagonal())).abs().max() < 4.5 / math.sqrt(m)


def test_overlaps():
    mixture = dd.GaussianMixture(MEANS, WEIGHTS, [0.0] * 3)
    expected = [[float(a @ b) / 5 for b in MEANS] for a in MEANS]
    torch.testing.assert_close(mixture.overlaps, torch.tensor(expected, dtype=torch.float64))


def test_signalless():
    mixture = dd.mixtures.signalless(7)
    X, y = mixture.sample(9, seed=0)
    assert (mixture.dimension, mixture.modes, X.shape) == (7, 1, (9, 7))
    assert not y.any()
    assert not mixture.overlaps.any()


def test_flipped_classes():
    mixture = dd.mixtures.flipped_classes(6, snr=0.1, flip=0.2, labels=(0.0, 1.0))
    expected = 0.1**2 * torch.tensor([[1.0, -1.0], [-1.0, 1.0]], dtype=torch.float64)
    torch.testing.assert_close(mixture.overlaps, expected, rtol=1e-15, atol=0)
    _, y, modes = mixture.sample_with_modes(20_000, seed=0)
    for mode, wrong in ((0, 1.0), (1, 0.0)):
        answers = y[modes == mode]
        share = (answers == wrong).double().mean()
        assert abs(share - 0.2) < 4 * math.sqrt(0.16 / len(answers))


def test_discrete_regression():
    mixture = dd.mixtures.discrete_regression(
        4, modes=5, snr=2.0, slope=3.0, intercept=1.0, response_noise=0.25
    )
    level = torch.arange(1, 6, dtype=torch.float64) / 5
    torch.testing.assert_close(mixture.overlaps, 4 * torch.outer(level, level))
    _, y, modes = mixture.sample_with_modes(20_000, seed=0, dtype=torch.float64)
    noise = (y - (3 * level + 1)[modes]) / 0.25
    assert abs(noise.mean()) < 4 / math.sqrt(20_000)
    assert abs(noise.square().mean() - 1) < 4 * math.sqrt(2 / 20_000)
    chosen = dd.mixtures.discrete_regression(4, modes=2, weights=torch.tensor([0.25, 0.75]))
    assert chosen.weights.tolist() == [0.25, 0.75]


def test_xor():
    mixture = dd.mixtures.xor(8, snr=0.3)
    blocks = mixture.means.reshape(4, 2, 4)
    assert (blocks == blocks[:, :, :1]).all()
    signs, answers = blocks[:, :, 0].sign(), [law.values[0] for law in mixture.responses]
    assert {tuple(row) for row in signs.tolist()} == {(1, 1), (-1, -1), (-1, 1), (1, -1)}
    assert answers == [0.0 if a * b > 0 else 1.0 for a, b in signs.tolist()]
    expected = 0.09 * torch.ones(4, dtype=torch.float64)
    torch.testing.assert_close(mixture.overlaps.diagonal(), expected, rtol=1e-15, atol=0)


def test_seed_gives_the_same_rows_in_both_dtypes():
    mixture = dd.mixtures.xor(10, snr=4.0, noise="three_point")
    (X, y), (narrow, labels) = (mixture.sample(20, 5, t) for t in (torch.float64, torch.float32))
    assert torch.equal(X.float(), narrow)
    assert torch.equal(y.float(), labels)
    assert not torch.equal(mixture.sample(20, seed=6, dtype=torch.float64)[0], X)


def test_sampling_leaves_the_global_generator_alone():
    before = torch.get_rng_state()
    once, again = (dd.mixtures.xor(4).sample(5)[0] for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    assert not torch.equal(once, again)


def test_weights_in_single_precision_are_probabilities_too():
    mixture = dd.GaussianMixture(MEANS, torch.full((3,), 1 / 3), [0.0] * 3)
    assert mixture.modes == 3


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: dd.GaussianMixture(MEANS, [0.2, 0.3, 0.4], [0.0] * 3), r"weights=.*sum to 0.9"),
        (lambda: dd.GaussianMixture(MEANS, [1.0], [0.0] * 3), "weights=.*3 probabilities"),
        (lambda: dd.GaussianMixture(MEANS, [-0.2, 0.6, 0.6], [0.0] * 3), r"weights=\[-0.2"),
        (lambda: dd.GaussianMixture(MEANS, [math.nan, 0.5, 0.5], [0.0] * 3), r"weights=\[nan"),
        (lambda: dd.GaussianMixture(MEANS, WEIGHTS, [0.0]), "responses has 1 entries"),
        (lambda: dd.GaussianMixture(MEANS[0], WEIGHTS, [0.0]), r"means has shape \(5,\)"),
        (lambda: dd.GaussianMixture(MEANS * math.inf, WEIGHTS, [0.0] * 3), "means.*finite"),
        (lambda: dd.GaussianMixture(MEANS, WEIGHTS, [0.0] * 3, "levy"), "noise='levy'"),
        (lambda: dd.mixtures.xor(5), "dimension=5 must be even"),
        (lambda: dd.mixtures.xor(0), "dimension=0 must be even"),
        (lambda: dd.mixtures.flipped_classes(4, flip=0.6), "flip=0.6 must lie between 0 and 0.5"),
        (
            lambda: dd.mixtures.discrete_regression(4, modes=0),
            "modes=0 must be a whole number of at least 1",
        ),
        (lambda: dd.mixtures.xor(4).sample(0), "n=0 must be a whole number of at least 1"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    "make",
    [
        lambda: dd.mixtures.signalless(6),
        lambda: dd.mixtures.flipped_classes(6, noise="uniform"),
        lambda: dd.mixtures.discrete_regression(6, noise="rademacher"),
        lambda: dd.mixtures.xor(6, noise="three_point"),
        lambda: dd.GaussianMixture([[1.0, 2.0]], [1.0], [0.0]),
    ],
)
def test_rows_are_on_the_cpu_whatever_the_default_device(make):
    wanted = make().sample_with_modes(9, seed=0)
    with torch.device("meta"):
        found = make().sample_with_modes(9, seed=0)
    assert all(map(torch.equal, found, wanted))
