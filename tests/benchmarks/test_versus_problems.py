"""Where the rows come from, and the estimator on real tables."""

import sys

import numpy as np
import pytest

from benchmarks.versus import __main__ as command
from benchmarks.versus import front
from benchmarks.versus.problems import DRAWS
from tests.real_data import real_data


@pytest.mark.parametrize("kind", ["Gaussian", "power law", "t₅ rows"])
def test_regressions_have_unit_signal_and_a_quarter_of_noise(kind):
    draw = DRAWS[kind](1000, seed=0)
    X, y = np.vstack([draw.X, draw.X_test]), np.r_[draw.y, draw.y_test]
    lengths = (X**2).sum(1)
    assert lengths.mean() == pytest.approx(1, abs=5 * lengths.std() / len(y) ** 0.5)
    beta = np.linalg.lstsq(X, y, rcond=None)[0]
    rest = len(y) - X.shape[1]
    assert ((y - X @ beta) ** 2).sum() / rest == pytest.approx(
        0.25, abs=5 * 0.25 * (2 / rest) ** 0.5
    )
    assert y.var() == pytest.approx(1.25, rel=0.15)
    assert len(draw.y) == 1000


@pytest.mark.parametrize("name", ["xor", "flipped classes", "Gaussian"])
def test_draws_repeat_and_test_rows_are_others(name):
    first, again, other = (DRAWS[name](100, seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y_test, again.y_test)
    assert not np.array_equal(first.X, other.X)
    assert not set(first.X[:, 0]) & set(first.X_test[:, 0])


FILES = {"noisy MNIST": "mnist", "embeddings": "cifar10_cats_dogs_resnet18.npz"}


@pytest.mark.data
@pytest.mark.parametrize("name", FILES)
def test_real_rows_are_dealt_out_once(name):
    real_data(FILES[name])
    draw = DRAWS[name](100, seed=0)
    assert draw.X.shape[0] == len(draw.y) == 100
    assert len(draw.y_test) == 6000
    assert set(draw.y) == {0.0, 1.0}


def test_the_estimator_gives_its_own_estimate_and_folds_skip_unknown_classes(monkeypatch):
    draw = front.draw("wine", 40, seed=0)
    two = draw.y < 2
    fitted = front.train(draw.X[two], draw.y[two])
    found = fitted.losses(draw.X_test, draw.y_test)
    np.testing.assert_array_equal(np.isnan(found[0]), draw.y_test == 2)
    monkeypatch.setattr(front, "train", lambda X, y: fitted)
    answer, model = front.own(draw.X[two], draw.y[two]), fitted.model
    assert (answer.estimate, answer.stderr) == (
        model.estimated_test_error_, model.estimated_test_error_stderr_,
    )  # fmt: skip
    known = draw.y_test < 2
    others, labels = draw.X_test[known], draw.y_test[known]
    said = model.predict_proba(fitted.map_.transform(others))
    wanted = -np.log(said[np.arange(len(labels)), labels])
    np.testing.assert_allclose(answer.losses(others, labels), wanted)


def test_the_command_says_what_is_missing(tmp_path, monkeypatch):
    missing = tmp_path / "none.jsonl"
    monkeypatch.setattr(sys, "argv", ["versus", "table", str(missing)])
    with pytest.raises(SystemExit, match=f"{missing} has no results; python -m benchmarks.versus"):
        command.main()
