"""The walk along a grid of ridges."""

import pytest

from decoupled_descent.tables.search.ridge_walk import downhill


@pytest.mark.parametrize("start", [-4, 0, 3, 6])
def test_the_walk_passes_the_lowest_point_and_both_neighbours(start):
    tried = list(downhill(lambda k: abs(k - 3), start, -10, 10))
    assert tried[0] == start
    assert {2, 3, 4} <= set(tried)
    assert len(tried) == len(set(tried))


def test_the_grid_has_ends():
    assert list(downhill(lambda k: -k, 0, -2, 2)) == [0, -1, 1, 2]
    assert list(downhill(lambda k: k, 0, -2, 2)) == [0, -1, -2]
    assert list(downhill(lambda k: k * k, -2, -2, 2)) == [-2, -1, 0, 1]


def test_a_level_error_ends_the_walk():
    assert list(downhill(lambda k: 1.0, 0, -5, 5)) == [0, -1, 1]


def test_points_are_yielded_after_they_were_tried():
    seen = []
    for point in downhill(lambda k: seen.append(k) or k * k, 1, -5, 5):
        assert point in seen
