"""The evaluation: one number for one question, whoever asks."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from sklearn import metrics

from decoupled_descent.evaluation import DecisionRule, Evaluation
from decoupled_descent.evaluation.kinds import NUMBERS
from decoupled_descent.evaluation.means import share_with_stderr
from tests.evaluation.problems import quiet


def two_classes(n=120, seed=0, **options):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    p = 1 / (1 + np.exp(-rng.normal(2.0 * y - 1, 1.2)))
    return Evaluation.of(y, np.stack([1 - p, p], 1), **options)


def numbers(n=120, seed=0, **options):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=n)
    return Evaluation.of(y, y + 0.5 * rng.standard_t(4, n), NUMBERS, **options)


def test_the_loss_and_its_metric_are_one_number():
    for found, name in ((two_classes(pairs=1e-4), "log_loss"), (numbers(pairs=1e-4), "mse")):
        metric = found.estimate(name)
        assert metric.value == found.error
        assert metric.stderr == pytest.approx(found.stderr, rel=1e-6)
        assert metric.interval == pytest.approx(found.interval)
    found = numbers(losses=np.full(120, 4.0) + np.linspace(-1, 1, 120))
    assert found.estimate("rmse").value == pytest.approx(2.0)
    variance = found.labels.var()
    assert found.estimate("r2").value == pytest.approx(1 - 4 / variance)


def test_what_rows_have_in_common_widens_every_metric():
    alone, wider = two_classes(), two_classes(pairs=1e-3)
    factor = wider.stderr / alone.stderr
    assert wider.widening == pytest.approx(factor)
    for name in ("accuracy", "auc", "brier", "sensitivity"):
        assert wider.estimate(name).stderr == pytest.approx(factor * alone.estimate(name).stderr)
    assert wider.stderr**2 == pytest.approx(alone.stderr**2 + 1e-3)


def test_every_decision_is_that_of_the_rule():
    found = two_classes().with_rule(DecisionRule(0.2))
    said = (found.predictions[:, 1] > 0.2).astype(int)
    y = found.labels
    expected = {
        "accuracy": metrics.accuracy_score(y, said),
        "sensitivity": metrics.recall_score(y, said),
        "specificity": metrics.recall_score(y, said, pos_label=0),
        "ppv": metrics.precision_score(y, said),
        "f1": metrics.f1_score(y, said),
    }
    for name, value in expected.items():
        assert found.estimate(name).value == pytest.approx(value)
    assert found.estimate(metrics.f1_score).value == pytest.approx(expected["f1"])
    assert found.estimate("auc").value == pytest.approx(two_classes().estimate("auc").value)


def test_the_class_to_find_may_be_the_first():
    found = two_classes().with_rule(DecisionRule(0.3, positive=0))
    said, y = found.predictions[:, 0] > 0.3, found.labels == 0
    assert found.estimate("sensitivity").value == pytest.approx(metrics.recall_score(y, said))
    assert found.estimate("ppv").value == pytest.approx(metrics.precision_score(y, said))
    assert found.estimate("auc").value == pytest.approx(two_classes().estimate("auc").value)


def test_decisions_of_other_thresholds_are_taken_as_they_are():
    y = two_classes().labels
    found = two_classes().with_rule(DecisionRule(0.2), decided=1 - y)
    assert found.estimate("accuracy").value == 0


def test_a_better_guess_of_right_decisions_is_the_accuracy():
    found = two_classes(right=np.full(120, 0.6))
    assert found.estimate("accuracy").value == pytest.approx(0.6)
    assert found.estimate("error_rate").value == pytest.approx(0.4)
    correct = found.decisions == found.labels
    stderr = share_with_stderr(correct, expected=np.full(120, 0.6)).stderr
    assert found.estimate("accuracy").stderr == pytest.approx(stderr)
    assert found.with_rule(DecisionRule(0.2)).right is None


def test_nobody_is_called_without_a_share():
    """No row is given to class 1: its predictive value is not a number, and nothing fails."""
    nobody = two_classes().with_rule(DecisionRule(1.0)).estimate("ppv")
    assert math.isnan(nobody.value)
    assert all(map(math.isnan, nobody.interval))


def test_the_same_rows_are_compared_row_by_row():
    one, two = two_classes(), two_classes().with_rule(DecisionRule(0.3))
    shifted = Evaluation.of(one.labels, 0.9 * one.predictions + 0.05)
    found = one.compare(shifted)
    differences = one.losses - shifted.losses
    assert found.difference == pytest.approx(differences.mean())
    assert found.stderr == pytest.approx(differences.std(ddof=1) / 120**0.5)
    assert found.interval[0] < found.difference < found.interval[1]
    accuracy = two.compare(one, "accuracy")
    right = (two.decisions == two.labels) * 1.0 - (one.decisions == one.labels)
    assert accuracy.difference == pytest.approx(right.mean())
    assert accuracy.stderr == pytest.approx(right.std(ddof=1) / 120**0.5)
    assert one.compare(one, "auc").z == 0
    with pytest.raises(ValueError, match="evaluate both on the same rows"):
        one.compare(two_classes(seed=1))
    with pytest.raises(ValueError, match="pass a metric that both have"):
        one.compare(two_classes(losses=np.ones(120), loss=""))


def test_weights_groups_and_effective_rows():
    heavy = np.array([1000.0] + [1.0] * 119)
    found = two_classes(weights=heavy)
    assert found.count == pytest.approx(1119**2 / (1e6 + 119))
    assert found.verdict == "do not trust"
    assert "rows of equal weight" in found.reasons[0]
    assert two_classes(groups=np.arange(120) // 2).count == 60
    assert two_classes().verdict == "trust"


def test_one_class_says_nothing():
    found = Evaluation.of(np.ones(200, int), np.tile([0.01, 0.99], (200, 1)))
    assert found.verdict == "do not trust"
    assert "All rows have the same label" in found.reasons[0]


def test_the_worst_finding_decides_and_others_are_kept():
    worse = quiet(notes={"linearisation": 1.0})
    assert quiet().verdict == "trust"
    assert worse.verdict == "do not trust"
    (finding,) = [one for one in worse.findings if one.name == "linearisation"]
    joined = quiet().with_findings([finding])
    assert joined.verdict == "do not trust"
    assert joined.estimate("mae").verdict == "do not trust"
    assert joined.with_findings([finding]).given == (finding,)


def test_text_and_json():
    found = two_classes(how="folds", refits=3, optimism=0.01)
    assert repr(found).startswith("Evaluation(log loss 0.")
    assert repr(found).endswith("120 rows, folds, trust)")
    data = json.loads(found.to_json())
    assert data["error"] == found.error
    assert data["score"]["metric"] == "accuracy"
    assert data["diagnosis"]["verdict"] == "trust"
    with pytest.raises(ValueError, match="y has 3 rows and predictions 2"):
        Evaluation.of(np.zeros(3), np.zeros(2), NUMBERS)
