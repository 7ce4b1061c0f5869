"""The arithmetic of choosing, validated by simulation."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.comparison import PairedDifference


def test_paired_difference_is_the_textbook_one():
    rng = np.random.default_rng(0)
    a, b = rng.random(50), rng.random(50)
    difference = dd.evaluation.paired_difference(torch.from_numpy(a), torch.from_numpy(b))
    assert difference.mean == pytest.approx((a - b).mean())
    assert difference.stderr == pytest.approx((a - b).std(ddof=1) / 50**0.5)
    assert difference.z == pytest.approx((a - b).mean() / (a - b).std(ddof=1) * 50**0.5)


def test_pairing_sees_what_single_errors_hide():
    shared = torch.randn(400, generator=torch.Generator().manual_seed(0)).abs()
    worse = shared + 0.02 + 0.05 * torch.randn(400, generator=torch.Generator().manual_seed(1))
    difference = dd.evaluation.paired_difference(worse, shared)
    assert difference.z > 3
    assert difference.stderr < 0.2 * float(shared.std()) / 20


def test_only_evaluations_are_compared():
    rng = np.random.default_rng(0)
    one = dd.evaluate(predictions=rng.normal(size=20), y=rng.normal(size=20))
    with pytest.raises(ValueError, match="other=3 must be an evaluation"):
        one.compare(3)


def test_rows_must_match():
    with pytest.raises(ValueError, match="same rows"):
        dd.evaluation.paired_difference(torch.ones(3), torch.ones(4))


@pytest.mark.parametrize(("order", "expected"), [(None, 0), ([2, 1, 0], 1), ([1, 0, 2], 1)])
def test_one_standard_error_takes_the_first_within_reach(order, expected):
    noise = torch.randn(3, 1000, generator=torch.Generator().manual_seed(0))
    losses = noise - noise.mean(1, keepdim=True) + torch.tensor([[0.01], [0.0], [0.9]])
    assert dd.evaluation.one_standard_error(losses, order) == expected


def simulate(gaps, n, replications, seed):
    """Naive and corrected errors of the winner, minus its true error, over fresh samples."""
    generator = torch.Generator().manual_seed(seed)
    true = 1 + torch.tensor(gaps, dtype=torch.float64)
    naive, corrected = [], []
    for replication in range(replications):
        own = torch.randn(len(gaps), n, generator=generator, dtype=torch.float64)
        shared = torch.randn(n, generator=generator, dtype=torch.float64)
        losses = true.unsqueeze(1) + 0.6 * own + 0.8 * shared
        means = losses.mean(1)
        best = int(means.argmin())
        naive.append(float(means[best] - true[best]))
        corrected.append(
            dd.evaluation.winners_curse(losses, 400, replication).error - float(true[best])
        )
    return torch.tensor(naive), torch.tensor(corrected)


def test_winners_curse_is_taken_out_among_equals():
    """Twenty equal configurations: the winner is too good by 1.87 · 0.6/√n, and then no longer."""
    naive, corrected = simulate([0.0] * 20, n=200, replications=200, seed=0)
    stderr = float(naive.std()) / 200**0.5
    expected = -1.8675 * 0.6 / 200**0.5
    assert abs(float(naive.mean()) - expected) < 3 * stderr
    assert abs(float(corrected.mean())) < 3 * stderr


@pytest.mark.parametrize("gaps", [[0.02 * k for k in range(12)], [0.0] * 6 + [5.0] * 6])
def test_winners_curse_in_contests_of_other_kinds(gaps):
    """Where configurations truly differ the correction is a little too careful, not too bold."""
    naive, corrected = simulate(gaps, n=200, replications=200, seed=1)
    stderr = float(naive.std()) / 200**0.5
    assert float(naive.mean()) < -4 * stderr
    assert -3 * stderr < float(corrected.mean()) < abs(float(naive.mean())) / 2


def test_no_correction_where_there_was_no_contest():
    losses = torch.rand(5, 400, generator=torch.Generator().manual_seed(0))
    losses += 10 * torch.arange(5).unsqueeze(1)
    result = dd.evaluation.winners_curse(losses)
    assert result.optimism < 0.1 * result.stderr
    assert result.error == pytest.approx(float(losses[0].double().mean()), abs=result.stderr)


def test_winners_curse_shape():
    with pytest.raises(ValueError, match=r"losses has shape \(7,\)"):
        dd.evaluation.winners_curse(torch.ones(7))


@pytest.mark.parametrize(("mean", "z"), [(0.0, 0.0), (-0.0, 0.0), (0.1, np.inf), (-0.1, -np.inf)])
def test_z_without_any_spread(mean, z):
    assert PairedDifference(mean, 0.0).z == z


def test_the_default_device_does_not_matter():
    losses = torch.rand(5, 50, generator=torch.Generator().manual_seed(0))
    wanted = dd.evaluation.winners_curse(losses)
    with torch.device("meta"):
        assert dd.evaluation.winners_curse(losses) == wanted


def test_the_price_of_choice_counts_groups_and_weights():
    rng = np.random.default_rng(0)
    alone = rng.normal(size=(5, 50))
    price = dd.evaluation.comparison.price_of_choice
    twice = [np.repeat(one, 2) for one in alone]
    groups, ones = np.repeat(np.arange(50), 2), np.ones(50)
    assert price(twice, groups=groups) == pytest.approx(price(list(alone)))
    assert price(list(alone), weights=3 * ones) == pytest.approx(price(list(alone)))
    assert price(twice) < 0.9 * price(list(alone))
    assert price([alone[0]]) == 0


def test_all_pairs():
    y = np.arange(30.0)
    models = {name: dd.evaluate(predictions=y + k, y=y) for k, name in enumerate("abc")}
    pairs = dd.evaluation.comparison.all_pairs(models)
    assert list(pairs) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert pairs["a", "c"].difference == pytest.approx(-4)
