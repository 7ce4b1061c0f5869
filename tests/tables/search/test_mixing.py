"""The mixture's standard error: losses that were not seen, and pairs of rows."""

import numpy as np
import pytest

from decoupled_descent.tables.search import mixing as module
from decoupled_descent.tables.search.search import search_models
from tests.problems import normal
from tests.tables.search.problems import evaluated


def test_the_largest_error_of_a_number_counts_twice_in_the_standard_error():
    """By exchange of rows, a new loss is above n others with probability 1/(n + 1)."""
    X, y = normal(40, 3, seed=0), normal(40, seed=1).exp()
    result = search_models(X, y, "squared", features="linear", ridge=1.0, progress=False)
    losses = result.losses.numpy()
    widened = np.append(losses, losses.max()).var(ddof=1)
    pairs = evaluated(result).stderr ** 2 - widened / 40
    assert widened > losses.var(ddof=1)
    assert pairs == pytest.approx(module._pair_covariance(result.best, 0), rel=1e-6)
