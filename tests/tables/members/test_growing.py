"""Forests are those of scikit-learn's trees, and rows are predicted by trees without them."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier

from decoupled_descent.tables.members import growing
from decoupled_descent.tables.members.bags import draw_bags
from decoupled_descent.tables.members.growing import FORESTS, grow_forest
from decoupled_descent.tables.members.interface import TableSize
from decoupled_descent.tables.prediction.predictor import scaled_columns
from tests.tables.members.problems import rows, table

FOREST, EXTRA = FORESTS
EACH = growing.EACH


def literal(given, make, seed, fresh):
    """Predictions of single trees of scikit-learn for training rows and new rows, and the bags."""
    low, high = given.X.min(0), given.X.max(0)
    X, new = (scaled_columns(each, low, high) for each in (given.X, fresh))
    bags = draw_bags(given, 200, seed)
    seeds = np.random.default_rng([seed, 1]).integers(0, 2**31 - 1, len(bags))
    weights = 1.0 if given.weights is None else given.weights.numpy()
    y = given.y.numpy() if given.classes is None else given.classes.numpy()
    outputs = []
    for bag, own in zip(bags, seeds, strict=True):
        tree = make(int(own)).fit(X, y, sample_weight=bag * weights)
        ask = getattr(tree, "predict_proba", tree.predict)
        outputs.append([ask(each).reshape(len(each), -1) for each in (X, new)])
    trained, fresh_outputs = (np.stack(each) for each in zip(*outputs, strict=True))
    return trained, fresh_outputs, bags


@pytest.mark.parametrize("weighted", [False, True])
def test_classes(weighted):
    weights = torch.linspace(0.5, 2.0, 80, dtype=torch.float64) if weighted else None
    given = table("cross_entropy", outputs=3, weights=weights)
    fit = grow_forest(given, EXTRA, seed=5)
    trained, new, bags = literal(
        given, lambda s: ExtraTreeClassifier(max_features=1.0, random_state=s), 5, rows(9, seed=7)
    )
    check(fit, trained, new, bags, rows(9, seed=7))
    assert fit.predictions.shape == (80, 3)


def test_leaves_of_probabilities_have_several_rows():
    given, kind = table("logistic"), {"max_features": 2 / 3, "min_samples_leaf": 5}
    fit = grow_forest(given, FOREST, seed=5)
    trained, new, bags = literal(
        given, lambda s: DecisionTreeClassifier(**kind, random_state=s), 5, rows(9, seed=7)
    )
    check(fit, trained, new, bags, rows(9, seed=7))


@pytest.mark.parametrize("outputs", [1, 2])
def test_numbers(outputs):
    given = table("squared", outputs=outputs)
    fit = grow_forest(given, FOREST, seed=6)
    trained, new, bags = literal(
        given, lambda s: DecisionTreeRegressor(max_features=2 / 3, random_state=s), 6, rows(9)
    )
    check(fit, trained, new, bags, rows(9))


def check(fit, trained, new, bags, fresh):
    """Compare a forest with the trees of scikit-learn, bit for bit for each tree."""
    forest = fit.model
    np.testing.assert_array_equal(forest.value[forest.leaves(fresh)].transpose(1, 0, 2), new)
    np.testing.assert_allclose(forest.predict(fresh).numpy(), new.mean(0), rtol=1e-12)
    for row in range(len(fit.predictions)):
        without = trained[bags[:, row] == 0, row]
        np.testing.assert_allclose(fit.predictions[row].numpy(), without.mean(0), atol=1e-12)
        excess = without.var(0, ddof=1) * (1 / len(without) - 1 / len(bags))
        np.testing.assert_allclose(fit.excess[row].numpy(), excess, atol=1e-12)


def test_rows_that_every_tree_saw_get_the_usual_prediction(monkeypatch):
    monkeypatch.setattr(growing, "trees_of", lambda n: 2)
    given = table("squared")
    fit = grow_forest(given, FOREST, seed=0)
    seen = ~fit.model.unseen.any(1)
    assert seen.any()
    np.testing.assert_allclose(fit.predictions[seen], float(given.y.mean()), rtol=1e-12)
    chances = grow_forest(table("logistic"), FOREST, seed=0).predictions
    np.testing.assert_allclose(chances.sum(1), 1.0, rtol=1e-12)


def test_groups_are_predicted_without_their_rows():
    """Copies of rows in one group: out of bag they are as hard to predict as single rows."""
    single = table("squared", n=60)
    copies = torch.arange(60).repeat_interleave(3)
    X, y = single.X[copies], single.y[copies]
    several = single._replace(X=X, y=y, groups=copies)
    apart = several._replace(groups=None)
    errors = [
        float((grow_forest(one, EXTRA, 0).predictions[:, 0] - one.y).square().mean())
        for one in (single, several, apart)
    ]
    assert errors[1] == pytest.approx(errors[0], rel=0.2)
    assert errors[2] < 0.3 * errors[0]  # the other copies give the row away


@pytest.mark.slow
def test_no_signal_is_predicted_at_random():
    """Bags keep the shares of the classes; otherwise rows left out would look like the others."""
    right = []
    for seed in range(20):
        given = table("logistic", n=40, seed=seed)
        y = torch.from_numpy(np.random.default_rng(seed + 100).permutation(np.arange(40) % 2))
        chances = grow_forest(given._replace(y=y.double()), EXTRA, seed).predictions
        right.append(float(chances.gather(1, y.reshape(-1, 1)).mean()))
    assert abs(np.mean(right) - 0.5) < 3 * np.std(right, ddof=1) / np.sqrt(20)


def steps(n, seed):
    """Labels that a forest predicts well."""
    given = table("logistic", n=n, seed=seed)
    return given._replace(y=torch.from_numpy((given.X[:, 0] * given.X[:, 1] > 0).astype(float)))


def test_a_forest_that_adds_nothing_is_not_finished():
    given = steps(200, 0)
    plain = grow_forest(given, EXTRA, 1)
    perfect = given._replace(mixed=0.98 * given.targets + 0.01)
    useful = EXTRA._replace(only_useful=True)
    assert grow_forest(perfect, useful, 1) is None
    assert torch.equal(grow_forest(perfect, EXTRA, 1).predictions, plain.predictions)
    constant = given._replace(mixed=torch.full((200, 2), 0.5, dtype=torch.float64))
    assert torch.equal(grow_forest(constant, useful, 1).predictions, plain.predictions)


@pytest.mark.slow
def test_few_trees_show_what_many_would_add(monkeypatch):
    """The noise of the trees has no part in it: forests of 5 and of 80 trees say the same."""
    monkeypatch.setattr(growing, "ERRORS", 0.0)  # the estimate itself
    gains = []
    for seed in range(30):
        given = steps(300, seed)
        half = given._replace(mixed=torch.full((300, 2), 0.5, dtype=torch.float64))
        fit = grow_forest(given, EXTRA, seed)
        gains.append([growing.largest_gain(first(fit.model, count), half) for count in (5, 80)])
    few, many = np.array(gains).T
    assert abs(np.mean(few - many)) < 3 * np.std(few - many, ddof=1) / np.sqrt(30)
    assert np.mean(many) > 0.01


def first(forest, count):
    """The first trees of a forest."""
    return replace(forest, roots=forest.roots[:count], unseen=forest.unseen[:, :count])


@pytest.mark.parametrize("forest", FORESTS)
def test_operations_grow_with_rows_columns_and_levels(forest):
    small, wide, long = (
        forest.operations(TableSize(*size, 1, has_classes=True)) - growing.trees_of(size[0]) * EACH
        for size in ((1000, 30), (1000, 60), (10**6, 30))
    )
    assert wide == pytest.approx(2 * small, rel=1e-3)
    assert long == pytest.approx(1000 * small, rel=1e-2)  # twice the levels, half of the trees
