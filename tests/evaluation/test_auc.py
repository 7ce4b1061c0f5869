"""The area under the curve of pairs within folds, and without each unit, pair by pair."""

import numpy as np
import pytest

from decoupled_descent.evaluation.auc import area_under_curve


def naive(labels, scores, weights, folds):
    """The weight of pairs in the right order, as a share."""
    right = total = 0.0
    for i in np.flatnonzero(labels == 1):
        for j in np.flatnonzero(labels == 0):
            if folds[i] == folds[j]:
                pair = weights[i] * weights[j]
                right += pair * (float(scores[i] > scores[j]) + 0.5 * float(scores[i] == scores[j]))
                total += pair
    return right / total


@pytest.mark.parametrize("several", [False, True])
def test_pairs_one_by_one(several):
    rng = np.random.default_rng(0)
    labels, weights = rng.integers(0, 2, 30), rng.uniform(0.5, 2, 30)
    scores, units = np.round(rng.normal(size=30) + labels, 1), rng.integers(0, 9, 30)
    units = np.unique(units, return_inverse=True)[1]
    folds = rng.integers(0, 3, 30) if several else np.zeros(30, int)
    found = area_under_curve(labels, scores, weights, units, folds if several else None)
    assert found.value == pytest.approx(naive(labels, scores, weights, folds), rel=1e-12)
    for unit, value in enumerate(found.without):
        at = units != unit
        expected = naive(labels[at], scores[at], weights[at], folds[at])
        assert value == pytest.approx(expected, rel=1e-12)
