"""Random samples of rows: every row is equally likely, and batches do not matter."""

import numpy as np
import pytest

from decoupled_descent.app.files.reservoir import ReservoirSample, sample_size

arrow = pytest.importorskip("pyarrow")


def rows(start, stop):
    return arrow.table({"a": np.arange(start, stop)})


def drawn(sample):
    numbers, table = sample.rows()
    values = table.column("a").to_pylist()
    assert [value + 1 for value in values] == numbers.tolist() == sorted(set(numbers))
    return values


def test_all_rows_are_equally_likely():
    counts = np.zeros(30)
    for seed in range(1000):
        sample = ReservoirSample(6, seed)
        for start in range(0, 30, 10):
            sample.add(rows(start, start + 10))
        counts[drawn(sample)] += 1
    expected, deviation = 1000 * 6 / 30, np.sqrt(1000 * 0.2 * 0.8)
    assert counts.sum() == 6000
    assert np.abs(counts - expected).max() < 4 * deviation


@pytest.mark.parametrize("seed", range(5))
def test_batches_do_not_change_the_sample(seed):
    at_once, in_batches = ReservoirSample(6, seed), ReservoirSample(6, seed)
    at_once.add(rows(0, 30))
    for start in range(0, 30, 4):
        in_batches.add(rows(start, min(start + 4, 30)))
    assert drawn(at_once) == drawn(in_batches)
    keys = np.random.default_rng(seed).random(30)  # the definition: the six lowest keys
    assert drawn(at_once) == sorted(np.argsort(keys)[:6].tolist())


def test_samples_of_wide_tables_are_smaller():
    assert [sample_size(width) for width in (1, 20, 200, 10**5)] == [10**5, 50_000, 5_000, 1000]
