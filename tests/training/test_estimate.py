"""Metrics against scikit-learn, and their standard errors against leaving rows out one by one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from sklearn import metrics

from decoupled_descent.training.estimate import Estimate, estimate, mean_with_stderr

N = 40


def problem(kind, seed=0):
    generator = np.random.default_rng(seed)
    if kind == "values":
        y = generator.normal(size=N)
        return y, y + generator.normal(size=N)
    classes = 2 if kind == "two" else 3
    y = generator.integers(0, classes, N)
    if kind == "two":
        return y, np.round(generator.normal(size=N) + y, 1)  # some ties
    return y, generator.normal(size=(N, 3)) + np.eye(3)[y]


def softmax(logits):
    shares = np.exp(logits - logits.max(1, keepdims=True))
    return shares / shares.sum(1, keepdims=True)


def probability(logits):
    return 1 / (1 + np.exp(-logits)) if logits.ndim == 1 else softmax(logits)


def predicted(logits):
    return (logits > 0).astype(int) if logits.ndim == 1 else logits.argmax(1)


#: Name, kind of problem, and scikit-learn's function of labels, outputs and weights.
NAMED = [
    ("accuracy", "two", lambda y, o, w: metrics.accuracy_score(y, predicted(o), sample_weight=w)),
    ("accuracy", "many", lambda y, o, w: metrics.accuracy_score(y, predicted(o), sample_weight=w)),
    ("error_rate", "many", lambda y, o, w: metrics.zero_one_loss(y, predicted(o), sample_weight=w)),
    ("balanced_accuracy", "many",
     lambda y, o, w: metrics.balanced_accuracy_score(y, predicted(o), sample_weight=w)),
    ("f1", "two", lambda y, o, w: metrics.f1_score(y, predicted(o), sample_weight=w)),
    ("f1", "many",
     lambda y, o, w: metrics.f1_score(y, predicted(o), average="macro", sample_weight=w)),
    ("auc", "two", lambda y, o, w: metrics.roc_auc_score(y, o, sample_weight=w)),
    ("brier", "two",
     lambda y, o, w: metrics.brier_score_loss(y, probability(o), sample_weight=w)),
    ("log_loss", "two", lambda y, o, w: metrics.log_loss(y, probability(o), sample_weight=w)),
    ("log_loss", "many",
     lambda y, o, w: metrics.log_loss(y, probability(o), labels=[0, 1, 2], sample_weight=w)),
    ("mse", "values", lambda y, o, w: metrics.mean_squared_error(y, o, sample_weight=w)),
    ("rmse", "values", lambda y, o, w: metrics.root_mean_squared_error(y, o, sample_weight=w)),
    ("mae", "values", lambda y, o, w: metrics.mean_absolute_error(y, o, sample_weight=w)),
    ("r2", "values", lambda y, o, w: metrics.r2_score(y, o, sample_weight=w)),
]  # fmt: skip


def brute(function, y, outputs, weights, units):
    """The metric and its jackknife standard error, one unit after the other."""
    without = []
    for unit in np.unique(units):
        at = units != unit
        without.append(function(y[at], outputs[at], None if weights is None else weights[at]))
    count, without = len(without), np.array(without)
    spread = ((without - without.mean()) ** 2).sum() * (count - 1) / count
    return function(y, outputs, weights), spread**0.5


@pytest.mark.parametrize(("name", "kind", "function"), NAMED, ids=lambda v: str(v)[:18])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("grouped", [False, True])
def test_names_against_scikit_learn_and_brute_force(name, kind, function, weighted, grouped):
    y, outputs = problem(kind)
    generator = np.random.default_rng(1)
    weights = generator.uniform(0.5, 2.0, N) if weighted else None
    groups = generator.integers(0, 12, N) if grouped else None
    found = estimate(
        name, torch.tensor(y), torch.tensor(outputs), "values" if kind == "values" else "logits",
        sample_weight=None if weights is None else torch.tensor(weights),
        groups=None if groups is None else torch.tensor(groups),
    )  # fmt: skip
    value, stderr = brute(function, y, outputs, weights, np.arange(N) if groups is None else groups)
    assert found.value == pytest.approx(value, rel=1e-10)
    assert found.stderr == pytest.approx(stderr, rel=1e-10)
    assert found.units == (N if groups is None else len(np.unique(groups)))


def test_brier_of_many_classes():
    y, outputs = problem("many")
    found = estimate("brier", torch.tensor(y), torch.tensor(outputs))
    rows = ((softmax(outputs) - np.eye(3)[y]) ** 2).sum(1)
    assert found.value == pytest.approx(rows.mean(), rel=1e-12)
    assert found.stderr == pytest.approx(rows.std(ddof=1) / N**0.5, rel=1e-10)


@pytest.mark.parametrize(
    ("function", "kind", "same"),
    [
        (metrics.roc_auc_score, "two", "auc"),
        (metrics.accuracy_score, "many", "accuracy"),
        (partial(metrics.f1_score, average="macro"), "many", "f1"),
        (metrics.mean_absolute_error, "values", "mae"),
        (metrics.brier_score_loss, "two", "brier"),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_functions_equal_names(function, kind, same, weighted):
    y, outputs = map(torch.tensor, problem(kind))
    scale = "values" if kind == "values" else "logits"
    weights = torch.rand(N, generator=torch.Generator().manual_seed(0)) if weighted else None
    by_function = estimate(function, y, outputs, scale, sample_weight=weights)
    by_name = estimate(same, y, outputs, scale, sample_weight=weights)
    assert by_function.value == pytest.approx(by_name.value, rel=1e-10)
    assert by_function.stderr == pytest.approx(by_name.stderr, rel=1e-9)
    assert by_function.metric == getattr(function, "__name__", "f1_score")


def test_blocks_give_the_same_standard_error_to_the_accuracy_of_so_many_blocks():
    generator = torch.Generator().manual_seed(0)
    y = torch.randint(2, (4000,), generator=generator)
    outputs = torch.randn(4000, generator=generator) + y
    exact = estimate("auc", y, outputs)
    found = estimate(metrics.roc_auc_score, y, outputs, blocks=100)
    assert found.units == 100
    assert found.value == pytest.approx(exact.value, rel=1e-12)
    # the standard error of a standard error from 100 blocks is 1/√200 of it; three of these
    assert found.stderr == pytest.approx(exact.stderr, rel=3 / 200**0.5)
    again = estimate(metrics.roc_auc_score, y, outputs, blocks=100)
    assert again == found


def test_groups_stay_whole_in_blocks():
    generator = torch.Generator().manual_seed(0)
    y, outputs = torch.randn(300, generator=generator), torch.zeros(300)
    groups = torch.arange(300) // 2
    seen = []

    def count(labels, predictions):
        seen.append(labels)
        return float(labels.mean())

    found = estimate(count, y, outputs, "values", groups=groups, blocks=30)
    assert found.units == 30
    for labels in seen[1:]:
        gone = set(y.double().tolist()) - set(labels.tolist())
        at = torch.tensor([value in gone for value in y.double().tolist()])
        assert len(gone) == 10
        assert len(groups[at].unique()) == 5


def test_means():
    values = torch.tensor([1.0, 2.0, 4.0])
    value, stderr = mean_with_stderr(values)
    assert value == pytest.approx(7 / 3)
    assert stderr == pytest.approx(float(values.std() / 3**0.5), rel=1e-6)
    assert np.isnan(mean_with_stderr(torch.tensor([1.0, torch.inf]))[1])


def test_the_estimate_is_words_and_an_interval():
    found = Estimate(0.5, 0.1, "accuracy", 10)
    assert str(found) == "accuracy 0.5 ± 0.1"
    assert found.interval == pytest.approx((0.304, 0.696), abs=1e-3)


@pytest.mark.parametrize(
    ("metric", "kind", "message"),
    [
        ("accurate", "two", "metric='accurate' must be one of accuracy, error_rate,"),
        ("rmse", "two", "metric='rmse' is for values"),
        ("accuracy", "values", "metric='accuracy' is for classes; the outputs are values"),
        (metrics.f1_score, "values", "metric=f1_score is for classes"),
        ("auc", "many", "metric='auc' is for two classes"),
    ],
)
def test_refusals(metric, kind, message):
    y, outputs = map(torch.tensor, problem(kind))
    with pytest.raises(ValueError, match=message):
        estimate(metric, y, outputs, "values" if kind == "values" else "logits")


def test_refusals_of_rows():
    with pytest.raises(ValueError, match="y has 3 rows and outputs 2"):
        estimate("mse", torch.zeros(3), torch.zeros(2), "values")
    with pytest.raises(ValueError, match="needs rows of both classes"):
        estimate("auc", torch.zeros(3, dtype=torch.int64), torch.zeros(3))
    with pytest.raises(ValueError, match="both classes without any one row"):
        estimate("auc", torch.tensor([0, 0, 1]), torch.zeros(3))
