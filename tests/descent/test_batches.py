"""Mini-batches: which rows they have, and options that are refused."""

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent.batches import Batches, subset
from tests.problems import binary


def rows_of(batches):
    return [batches[k].rows for k in range(len(batches))]


def test_a_pass_has_every_row_once():
    rows = dd.Rows(*binary(23, 4))
    for number in range(3):
        found = rows_of(Batches(rows, 5, False, 0, number))
        assert [len(index) for index in found] == [5, 5, 5, 5, 3]
        assert torch.equal(torch.cat(found).sort().values, torch.arange(23))
    first, again = (torch.cat(rows_of(Batches(rows, 5, False, 0, 1))) for _ in range(2))
    others = [torch.cat(rows_of(Batches(rows, 5, False, s, k))) for s, k in ((1, 1), (0, 2))]
    assert torch.equal(first, again)
    assert not any(torch.equal(first, other) for other in others)


@pytest.mark.parametrize(("n", "size"), [(40, 5), (40, 20), (40, 33), (40, 40)])
def test_subsets_are_uniform(n, size):
    """Each number is in a share size/n of the subsets, each pair in size (size−1)/(n (n−1))."""
    generator, count = torch.Generator().manual_seed(0), 2000
    inside = torch.zeros(count, n)
    for row in inside:
        drawn = subset(n, size, generator)
        assert len(torch.unique(drawn)) == size
        row[drawn] = 1
    share = size / n
    assert (inside.mean(0) - share).abs().max() <= 4.5 * (share * (1 - share) / count) ** 0.5
    pair = size * (size - 1) / (n * (n - 1))
    both = (inside[:, 0] * inside[:, 1]).mean()
    assert abs(both - pair) <= 4.5 * (pair * (1 - pair) / count) ** 0.5 + 1e-7


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_size": 0}, "batch_size=0 must be a whole number of at least 1"),
        ({"batch_size": 2.5}, "batch_size=2.5 must be a whole number"),
        ({"batch_seed": -1}, "batch_seed=-1 must be a whole number of at least 0"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        dd.DecoupledDescent(0.1, **options)
