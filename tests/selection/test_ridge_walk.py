"""The walk along a grid of ridges."""

import pytest

from decoupled_descent.selection.ridge_walk import downhill


@pytest.mark.parametrize("start", [-4, 0, 3, 6])
def test_the_walk_ends_at_the_lowest_point_with_both_neighbours_tried(start):
    tried = list(downhill(lambda k: abs(k - 3), start, -10, 10))
    assert tried[0] == start
    assert {2, 3, 4} <= set(tried)
    assert len(tried) == len(set(tried))


def test_the_grid_has_ends():
    assert set(downhill(lambda k: -k, 0, -2, 2)) == {-1, 0, 1, 2}
    assert set(downhill(lambda k: k, 0, -2, 2)) == {-2, -1, 0, 1}


def test_points_are_yielded_after_they_were_tried():
    seen = []
    for point in downhill(lambda k: seen.append(k) or k * k, 1, -5, 5):
        assert point in seen
