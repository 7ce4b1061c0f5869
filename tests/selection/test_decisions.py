"""Decisions without signal are right as often as by chance, on average over samples."""

import numpy as np
import pytest
import torch

from decoupled_descent.selection.decisions import FEWEST, HALVES, half_sample_count
from decoupled_descent.selection.search import search_models

OPTIONS = {"features": "linear", "ridge": 1e4, "progress": False}


def test_many_rows_and_classes_get_fewer_half_samples():
    assert half_sample_count(100, 1) == HALVES
    assert half_sample_count(10**6, 10) == FEWEST


@pytest.mark.parametrize("shares", ["drawn", "designed"])
@pytest.mark.parametrize("classes", [2, 3])
def test_no_signal_is_chance(classes, shares):
    """Counted decisions of leave-one-out see the most frequent class of the sample."""
    found, counted = [], []
    for seed in range(40):
        rng = np.random.default_rng(seed)
        y = rng.integers(classes, size=60) if shares == "drawn" else np.arange(60) % classes
        X = torch.from_numpy(rng.normal(size=(60, 2)))
        loss, outputs = ("logistic", 1) if classes == 2 else ("cross_entropy", 3)
        labels = torch.from_numpy(y).double() if classes == 2 else torch.from_numpy(y)
        result = search_models(X, labels, loss, outputs=outputs, **OPTIONS)
        found.append(float(result.right.mean()))
        counted.append(float((result.left_out.argmax(1).numpy() == y).mean()))
    stderr = np.std(found, ddof=1) / np.sqrt(40)
    assert abs(np.mean(found) - 1 / classes) < 3 * stderr
    if shares == "drawn":
        assert np.mean(counted) - 1 / classes > 3 * np.std(counted, ddof=1) / np.sqrt(40)


def test_clear_decisions_are_counted():
    rng = np.random.default_rng(0)
    y = torch.arange(80) % 2
    X = torch.from_numpy(rng.normal(size=(80, 3)))
    X[:, 0] += 8 * y
    found = search_models(X, y.double(), "logistic", features="linear", progress=False)
    torch.testing.assert_close(found.right, torch.ones(80, dtype=torch.float64))
