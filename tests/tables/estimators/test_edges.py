"""Values at the edge of what numbers, labels and processes allow."""

import multiprocessing
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

import decoupled_descent as dd
from tests.tables.estimators.problems import binary, real

LINEAR = {"features": "linear"}


@pytest.mark.parametrize("offset", [1e9, 1e12])
def test_large_offsets_of_columns_and_targets_do_not_matter(offset):
    X, y = real(80)
    plain, far = (dd.DecoupledRegressor(**LINEAR).fit(X, y + k) for k in (0.0, offset))
    assert far.estimated_r2_ == pytest.approx(plain.estimated_r2_, abs=1e-3)
    X, y = binary(80)
    plain, far = (dd.DecoupledClassifier(**LINEAR).fit(X + k, y) for k in (0.0, offset))
    assert far.estimated_test_error_ == pytest.approx(plain.estimated_test_error_, abs=1e-3)


def test_an_offset_at_the_limit_of_rounding():
    """y + 1e15 is rounded to an eighth; y + 1e19 is constant, of which nothing can be said."""
    X, y = real(120)
    y = 10 * y
    plain, far, lost = (dd.DecoupledRegressor(**LINEAR).fit(X, y + k) for k in (0.0, 1e15, 1e19))
    assert far.estimated_r2_ == pytest.approx(plain.estimated_r2_, abs=0.01)
    assert far.evaluation_.verdict == plain.evaluation_.verdict
    assert lost.evaluation_.verdict == "do not trust"
    assert "same label" in lost.evaluation_.reasons[0]


def test_one_heavy_row_is_one_row():
    """One row of weight 1,000 among 199 of weight 1, labels at random."""
    X, y = np.random.default_rng(0).normal(size=(200, 4)), np.arange(200) % 2
    weights = np.where(np.arange(200) == 0, 1000.0, 1.0)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y, sample_weight=weights)
    assert model.evaluation_.count < 2
    assert model.evaluation_.verdict == "do not trust"
    assert model.diagnostics_.verdict == "do not trust"


def test_separable_rows_may_have_mistakes_that_did_not_occur():
    """120 rows that a plane divides: no row is wrong, and some of the new ones are.

    The intervals of 12 draws: at most one misses with a probability of 88 % if 95 % cover.
    """
    covered, scores = 0, []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(2120, 6))
        y = (X @ rng.normal(size=6) > 0).astype(int)
        model = dd.DecoupledClassifier(features="linear").fit(X[:120], y[:120])
        chances = model.predict_proba(X[120:])[np.arange(2000), y[120:]]
        losses, found = -np.log(chances), model.evaluation_
        covered += found.interval[0] <= losses.mean() <= found.interval[1]
        spread = np.hypot(found.stderr, losses.std() / 2000**0.5)
        scores.append((found.error - losses.mean()) / spread)
    assert covered >= 11
    assert np.sqrt(np.mean(np.square(scores))) < 1.6


def strings(y):
    return pd.Series(np.where(y, "a", "b"), dtype="string")


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (lambda y: np.where(y, b"a", b"b"), "labels that are bytes; decode them"),
        (lambda y: strings(y).where(np.arange(60) != 5), "1 missing value.*in row 5"),
        (lambda y: pd.Series(y).astype("Int64").where(np.arange(60) != 3), "missing.*in row 3"),
        (lambda y: [None if k == 7 else str(one) for k, one in enumerate(y)], "in row 7"),
    ],
    ids=["bytes", "strings", "whole numbers", "a list"],
)
def test_labels_that_cannot_be_used_are_one_clear_line(labels, words):
    X, y = binary(60)
    with pytest.raises(ValueError, match=words):
        dd.DecoupledClassifier(**LINEAR).fit(X, labels(y))


def test_names_of_columns_of_several_types_are_one_clear_line():
    X, y = binary(60)
    frame = pd.DataFrame(X, columns=[str(k) if k % 2 else k for k in range(X.shape[1])])
    with pytest.raises(ValueError, match="column names of the types int, str; make all of them"):
        dd.DecoupledClassifier(**LINEAR).fit(frame, y)


@pytest.mark.skipif(
    "fork" not in multiprocessing.get_all_start_methods(), reason="no fork on this system"
)
def test_a_forked_process_trains_and_predicts():
    """OpenMP's threads do not survive a fork; a child that used them would wait for ever."""
    script = (
        "import multiprocessing, numpy as np, torch\n"
        "import decoupled_descent as dd\n"
        "torch.set_num_threads(4)\n"
        "rng = np.random.default_rng(0)\n"
        "X = rng.normal(size=(300, 6))\n"
        "y = (X[:, 0] + rng.normal(size=300) > 0).astype(int)\n"
        "def train():\n"
        "    dd.DecoupledClassifier(features=['linear', 'rbf(1)']).fit(X, y).predict(X)\n"
        "torch.ones(4000, 400) @ torch.ones(400, 400)\n"
        "train()\n"
        "child = multiprocessing.get_context('fork').Process(target=train)\n"
        "child.start()\n"
        "child.join(100)\n"
        "assert child.exitcode == 0, child.exitcode\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=150)
