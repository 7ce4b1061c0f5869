"""Two evaluations of the same rows."""

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.evaluation.comparing import all_pairs, compared


def test_the_difference_is_paired():
    rng = np.random.default_rng(0)
    y, noise = rng.normal(size=(2, 200))
    one, other = (dd.evaluate(predictions=y + size * noise, y=y) for size in (1.0, 1.1))
    found = compared(one, other)
    gaps = noise**2 * (1 - 1.1**2)
    assert found.difference == pytest.approx(gaps.mean())
    assert found.stderr == pytest.approx(gaps.std(ddof=1) / 200**0.5)
    assert found.z == pytest.approx(found.difference / found.stderr)
    assert one.compare(other) == found


def test_all_pairs():
    y = np.arange(30.0)
    models = {name: dd.evaluate(predictions=y + k, y=y) for k, name in enumerate("abc")}
    pairs = all_pairs(models)
    assert list(pairs) == [("a", "b"), ("a", "c"), ("b", "c")]
    assert pairs["a", "c"].difference == pytest.approx(-4)
