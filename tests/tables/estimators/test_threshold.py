"""The threshold with the lowest cost, against all thresholds, and the price of its choice."""

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.evaluation import Evaluation
from decoupled_descent.tables.estimators.threshold import best_threshold, choose_threshold
from tests.tables.estimators.problems import binary, several


def cost(p, y, weights, ratio, limit):
    return weights @ np.where(y == 1, ratio * (p <= limit), 1.0 * (p > limit))


@pytest.mark.parametrize("ratio", [0.2, 1.0, 7.0])
@pytest.mark.parametrize("seed", range(5))
def test_no_threshold_costs_less(ratio, seed):
    rng = np.random.default_rng(seed)
    p, y = rng.random(30).round(1).clip(0.05, 0.95), rng.integers(0, 2, 30)  # with ties
    weights = rng.random(30)
    limit = best_threshold(p, y, weights, ratio)
    every = [cost(p, y, weights, ratio, other) for other in np.linspace(-0.05, 1.05, 111)]
    assert cost(p, y, weights, ratio, limit) == pytest.approx(min(every))


def test_the_choice_is_paid_for():
    """Without signal the best threshold seems to save costs, and saves none."""
    gains, honest = [], []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        p, y = rng.random(60), rng.integers(0, 2, 60)
        chosen, _ = choose_threshold(Evaluation.of(y, np.stack([1 - p, p], 1)), 1.0)
        gains.append(cost(p, y, np.ones(60), 1.0, chosen.value) / 60)
        honest.append(chosen.cost.value)
    spread = 0.5 / 60**0.5 / 60**0.5  # of a mean of 60 shares of 60 rows
    assert np.mean(gains) < 0.5 - 5 * spread
    assert np.mean(honest) > 0.5 - 3 * spread


def test_estimates_are_of_cross_fitted_decisions():
    X, y = binary(80)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
    cheap, dear = model.choose_threshold(), model.choose_threshold(cost_ratio=20.0)
    assert dear.value < cheap.value
    assert dear.sensitivity.value >= cheap.sensitivity.value
    assert dear.specificity.value <= cheap.specificity.value
    for each in (cheap.sensitivity, cheap.specificity, cheap.ppv, cheap.npv):
        assert 0 <= each.interval[0] < each.value <= each.interval[1] <= 1
    model.fit(X, y, groups=np.arange(80) // 2)
    assert model.choose_threshold().cost.units == 40


def test_the_threshold_belongs_to_the_model(tmp_path):
    """Predictions, the evaluation and a copy from a file all use the threshold of ``fit``."""
    X, y = binary(80)
    labels = np.where(y == 1, "yes", "no")
    options = {"features": "linear", "ridge": 1.0}
    model = dd.DecoupledClassifier(cost_ratio=20.0, positive="no", **options).fit(X, labels)
    limit = model.threshold_.value
    assert model.decision_rule_.threshold == limit < 0.5
    own = np.where(model.predict_proba(X)[:, 0] > limit, "no", "yes")
    np.testing.assert_array_equal(model.predict(X), own)
    assert (own == "no").sum() > (labels == "no").sum()
    assert model.estimate("sensitivity").value == model.threshold_.sensitivity.value
    assert model.estimate("accuracy").value == model.estimated_accuracy_
    loaded = dd.load_model(dd.save_model(model, tmp_path / "model.safetensors"))
    np.testing.assert_array_equal(loaded.predict(X), own)
    usual = model.with_threshold(0.5)
    plain = dd.DecoupledClassifier(**options).fit(X, labels)
    np.testing.assert_array_equal(usual.predict(X), plain.predict(X))
    assert usual.estimate("specificity").value == plain.estimate("sensitivity").value
    with pytest.raises(ValueError, match=r"threshold=1\.5 must be between 0 and 1"):
        model.with_threshold(1.5)
    with pytest.raises(ValueError, match="positive='maybe' must be one of"):
        dd.DecoupledClassifier(positive="maybe", **options).fit(X, labels)


def test_what_is_refused():
    X, y = several(60)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
    with pytest.raises(ValueError, match="a threshold is for two classes; the model has 3"):
        model.choose_threshold()
    X, y = binary(60)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X, y)
    with pytest.raises(ValueError, match="cost_ratio=-1 must be larger than 0"):
        model.choose_threshold(cost_ratio=-1)
