"""Members that are not Newton fits: when they are trained, their shares, and the estimate."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.members.growing import FORESTS
from decoupled_descent.tables.search.other_members import FEWEST
from decoupled_descent.tables.search.search import search_models
from tests.tables.search.problems import evaluated

QUICK = {"features": ["linear"], "ridge": 1.0, "progress": False}
TREES = list(FORESTS)


def steps(n=150, seed=0):
    """Labels that depend on the signs of two columns: a problem for trees, not for lines."""
    X = np.random.default_rng(seed).uniform(-1, 1, size=(n, 5))
    return torch.from_numpy(X), torch.from_numpy((X[:, 0] * X[:, 1] > 0).astype(float))


def test_forests_win_where_lines_cannot():
    X, y = steps()
    result = search_models(X, y, "logistic", members=TREES, **QUICK)
    assert {one.name for one in result.others} <= {one.name for one in TREES}
    assert len(result.weights) == len(result.fits) + len(result.others)
    assert float(result.weights[len(result.fits) :].sum()) > 0.7
    assert float(result.weights.sum()) == pytest.approx(1)
    share, fit = result.other_members[-1]
    parts = [s * one.predictions for s, one in (*result.members, *result.other_members)]
    torch.testing.assert_close(result.left_out, sum(parts))
    assert share == float(result.weights[-1])
    assert fit is result.others[-1]
    assert fit.predictions.min() >= 0.5 / 151  # as bounded as probabilities of fits


def test_forests_have_no_share_where_they_are_worse():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(200, 6, generator=generator).double()
    y = (X.sum(1) > 0).double()
    result = search_models(X, y, "logistic", members=TREES, features=["linear"], progress=False)
    assert float(result.weights[len(result.fits) :].sum()) < 0.05


def test_the_estimate_is_that_of_new_rows():
    """The mean of z over draws is that of an honest estimate."""
    scores = []
    for seed in range(8):
        X, y = steps(120, seed)
        new, truth = steps(2000, seed + 100)
        result = search_models(X, y, "logistic", members=TREES, **QUICK)
        mixed = 0.0
        for share, fit in result.members:
            (bias,) = fit.run.state.head.values()
            logits = fit.features.transform(new) @ fit.run.state.theta.T + bias
            mixed = mixed + share * result.objective.loss.predictions(logits)
        for share, one in result.other_members:
            mixed = mixed + share * (120 * one.model.predict(new) + 0.5) / 121
        test = float(result.objective.loss.of_predictions(mixed, truth).mean())
        scores.append((test - evaluated(result).error) / evaluated(result).stderr)
    assert abs(np.mean(scores)) < 3 / np.sqrt(8)


@pytest.mark.parametrize("kind", ["few", "sparse", "best"])
def test_when_none_are_trained(kind):
    X, y = steps(FEWEST - 1 if kind == "few" else 40)
    given = csr_matrix(X.numpy()) if kind == "sparse" else X
    options = {"members": TREES, "stack": kind != "best"}
    assert search_models(given, y, "logistic", **options, **QUICK).others == ()


def test_groups_count_as_rows():
    X, y = steps(60)
    few = torch.arange(60) // 4
    assert search_models(X, y, "logistic", members=TREES, groups=few, **QUICK).others == ()
    many = torch.arange(60) // 2
    assert search_models(X, y, "logistic", members=TREES, groups=many, **QUICK).others


def test_rows_in_memory_are_used():
    X, y = steps(40)
    result = search_models(Rows(X, y), y, "logistic", members=TREES, **QUICK)
    assert result.others
