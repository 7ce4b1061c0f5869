"""Metrics against scikit-learn, and their standard errors against leaving rows out one by one."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
import torch
from sklearn import metrics
from sklearn.linear_model import LogisticRegression

import decoupled_descent as dd
from decoupled_descent.evaluation.heavy_tail import mean_interval
from tests.evaluation.problems import estimate

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
    ("sensitivity", "two", lambda y, o, w: metrics.recall_score(y, predicted(o), sample_weight=w)),
    ("specificity", "two",
     lambda y, o, w: metrics.recall_score(y, predicted(o), pos_label=0, sample_weight=w)),
    ("ppv", "two", lambda y, o, w: metrics.precision_score(y, predicted(o), sample_weight=w)),
    ("npv", "two",
     lambda y, o, w: metrics.precision_score(y, predicted(o), pos_label=0, sample_weight=w)),
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


#: Which rows a share is of.
SHARES = {
    "accuracy": lambda y, o: 1.0,
    "error_rate": lambda y, o: 1.0,
    "sensitivity": lambda y, o: y == 1,
    "specificity": lambda y, o: y == 0,
    "ppv": lambda y, o: predicted(o) == 1,
    "npv": lambda y, o: predicted(o) == 0,
}


#: Functions of the mean loss, whose standard error follows from that of the mean.
OF_LOSSES = ("error_rate", "log_loss", "mse", "rmse", "r2")


def share_stderr(right, weights, units):
    """By Agresti and Coull, for as many independent rows as know the share as well."""
    s = weights / weights.sum()
    p = s @ right
    sums = np.array([(s * (right - p))[units == unit].sum() for unit in np.unique(units)])
    rows = min(p * (1 - p) / (sums @ sums), 1 / (s @ s))
    towards = (rows * p + 2) / (rows + 4)
    return (towards * (1 - towards) / (rows + 4)) ** 0.5


def mean_stderr(losses, weights, units):
    """The spread of the sums of weighted deviations over units."""
    s = weights / weights.sum()
    parts = s * (losses - s @ losses)
    sums = np.array([parts[units == unit].sum() for unit in np.unique(units)])
    count = len(sums)
    return (sums @ sums * count / (count - 1)) ** 0.5


def expected_stderr(name, y, outputs, value, jackknife, weights, units):
    w = np.ones(len(y)) if weights is None else weights
    if name in SHARES:
        at = np.broadcast_to(SHARES[name](y, outputs), y.shape) > 0
        right = (predicted(outputs) == y)[at].astype(float)
        return share_stderr(right, w[at], units[at])
    if name == "log_loss":
        chances = probability(outputs)
        chances = np.stack([1 - chances, chances], 1) if chances.ndim == 1 else chances
        return mean_stderr(-np.log(chances[np.arange(N), y]), w, units)
    if name in OF_LOSSES:
        of_mean = mean_stderr((y - outputs) ** 2, w, units)
        variance = np.average((y - np.average(y, weights=w)) ** 2, weights=w)
        return of_mean * {"mse": 1, "rmse": 0.5 / value, "r2": 1 / variance}[name]
    if name == "auc":
        m, n = (len(np.unique(units[y == label])) for label in (1, 0))
        a = 1 - 0.5 / (min(m, n) + 1)
        spread = a * (1 - a) + (m - 1) * (a / (2 - a) - a**2)
        least = ((spread + (n - 1) * (2 * a**2 / (1 + a) - a**2)) / (m * n)) ** 0.5
        return max(jackknife, least)
    return jackknife


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
    units = np.arange(N) if groups is None else groups
    value, stderr = brute(function, y, outputs, weights, units)
    expected = expected_stderr(name, y, outputs, value, stderr, weights, units)
    assert found.value == pytest.approx(value, rel=1e-10)
    assert found.stderr == pytest.approx(expected, rel=1e-8)  # derivatives are differences
    if name not in SHARES and name != "r2":  # whose variance of labels counts as exact
        assert found.stderr == pytest.approx(stderr, rel=0.15)  # the jackknife's


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
    near = 0.1 if same == "accuracy" else 1e-9  # a share has two rows of each kind added
    assert by_function.stderr == pytest.approx(by_name.stderr, rel=near)
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


def test_all_rows_right_have_an_interval():
    """Of m rows that agree, the far end is where all would agree with probability 2.5 %."""
    y = torch.arange(20) % 2
    for name in ("accuracy", "sensitivity", "specificity", "ppv", "npv", "auc"):
        perfect = estimate(name, y, 2.0 * y - 1)
        low, high = perfect.interval
        assert perfect.value == high == 1
        assert 0.6 < low < 0.9
    assert estimate("accuracy", y, 2.0 * y - 1).interval[0] == pytest.approx(
        0.025 ** (1 / 20), 0.01
    )


def test_areas_within_folds_compare_rows_of_one_fold():
    y, outputs = problem("two")
    folds = np.arange(N) % 5
    outputs = outputs + 2 * folds  # scores of different folds are not comparable
    within = estimate("auc", torch.tensor(y), torch.tensor(outputs), folds=torch.tensor(folds))

    def area(y, outputs, weights, folds):
        above = (outputs[:, None] > outputs) + 0.5 * (outputs[:, None] == outputs)
        pairs = (y[:, None] == 1) & (y == 0) & (folds[:, None] == folds)
        return above[pairs].mean()

    assert within.value == pytest.approx(area(y, outputs, None, folds), rel=1e-12)
    without = np.array([area(*(np.delete(each, k) for each in (y, outputs, y, folds)))
                        for k in range(N)])  # fmt: skip
    spread = ((without - without.mean()) ** 2).sum() * (N - 1) / N
    assert within.stderr == pytest.approx(spread**0.5, rel=1e-10)
    alone = estimate("auc", torch.tensor(y), torch.tensor(outputs), folds=torch.arange(N))
    assert alone == estimate("auc", torch.tensor(y), torch.tensor(outputs))  # no pairs in folds


@pytest.mark.parametrize(
    ("metric", "kind", "message"),
    [
        ("accurate", "two", "metric='accurate' must be one of accuracy, error_rate,"),
        ("rmse", "two", "metric='rmse' needs predicted numbers; these predictions are classes"),
        ("accuracy", "values", "metric='accuracy' needs the class that is decided for"),
        (metrics.f1_score, "values", "metric=f1_score is for classes"),
        ("auc", "many", "metric='auc' is for two classes"),
        (None, "two", "metric=None must be the name of a metric, or a function"),
    ],
)
def test_refusals(metric, kind, message):
    y, outputs = map(torch.tensor, problem(kind))
    with pytest.raises(ValueError, match=message):
        estimate(metric, y, outputs, "values" if kind == "values" else "logits")


def test_refusals_of_rows():
    with pytest.raises(ValueError, match="y has 3 rows and predictions 2"):
        estimate("mse", torch.zeros(3), torch.zeros(2), "values")
    with pytest.raises(ValueError, match="needs rows of both classes"):
        estimate("auc", torch.zeros(3, dtype=torch.int64), torch.zeros(3))
    with pytest.raises(ValueError, match="both classes without any one row"):
        estimate("auc", torch.tensor([0, 0, 1]), torch.zeros(3))


def test_the_median_absolute_error_has_an_interval_of_order_statistics():
    y, outputs = problem("values")
    found = estimate("median_absolute_error", torch.tensor(y), torch.tensor(outputs), "values")
    assert found.value == pytest.approx(metrics.median_absolute_error(y, outputs), rel=1e-14)
    ordered = np.sort(np.abs(y - outputs))
    assert found.interval == (ordered[13], ordered[26])  # 14 and 27 of 40: 96 %
    with pytest.raises(ValueError, match="needs predicted numbers"):
        estimate("median_absolute_error", torch.tensor(y > 0), torch.tensor(outputs))


def test_intervals_of_squared_errors_are_those_of_a_long_tail():
    y, outputs = map(torch.tensor, problem("values"))
    squares = ((y - outputs) ** 2).numpy()
    ends = mean_interval(squares)
    variance = float(y.var(correction=0))
    assert estimate("mse", y, outputs, "values").interval == pytest.approx(ends)
    assert estimate("rmse", y, outputs, "values").interval == pytest.approx(np.sqrt(ends))
    expected = 1 - np.array(ends[::-1]) / variance
    assert estimate("r2", y, outputs, "values").interval == pytest.approx(expected)
    groups = torch.arange(N) // 4
    grouped = estimate("mse", y, outputs, "values", groups=groups).interval
    assert grouped == pytest.approx(mean_interval(squares.reshape(-1, 4).mean(1)))


@pytest.mark.parametrize(("few", "verdict"), [(3, "caution"), (30, "trust")])
def test_an_area_of_few_rows_of_a_class_is_a_caution(few, verdict):
    generator = np.random.default_rng(0)
    X, y = generator.normal(size=(300, 3)), np.arange(300) < few
    evaluation = dd.evaluate(LogisticRegression().fit(X, y), X, y)
    area = evaluation.estimate("auc")
    assert evaluation.verdict == "trust"
    assert area.verdict == verdict
    assert any(f"One class has {few} rows" in reason for reason in area.reasons) == (few == 3)
