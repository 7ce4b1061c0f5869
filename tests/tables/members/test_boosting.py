"""Boosted trees: the predictions of scikit-learn's own, rows left out, files."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

import decoupled_descent as dd
from decoupled_descent.tables.analyses.importance import importance
from decoupled_descent.tables.members.boosting import (
    FOLDS,
    LEAVES,
    RATE,
    RIDGE,
    Boosting,
    BoostingRecipe,
)
from decoupled_descent.tables.members.interface import TableSize
from tests.tables.members.problems import rows, table

LOSSES = [("squared", 1), ("poisson", 1), ("logistic", 1), ("cross_entropy", 3)]


def trained(loss, outputs):
    given = table(loss, outputs=outputs)
    return given, BoostingRecipe().train(given, seed=3)[0]


@pytest.mark.parametrize(("loss", "outputs"), LOSSES)
def test_predictions_are_those_of_scikit_learn(loss, outputs):
    given, fit = trained(loss, outputs)
    options = {"learning_rate": RATE, "max_leaf_nodes": LEAVES, "l2_regularization": RIDGE}
    options |= {"early_stopping": True, "random_state": 3}
    fresh = rows(40, seed=9)
    if loss in ("squared", "poisson"):
        named = {"loss": "squared_error" if loss == "squared" else loss}
        alone = HistGradientBoostingRegressor(**options, **named).fit(given.X, given.y)
        expected = alone.predict(fresh)[:, None]
    else:
        alone = HistGradientBoostingClassifier(**options).fit(given.X, given.classes)
        expected = alone.predict_proba(fresh)
    np.testing.assert_allclose(fit.model.predict(fresh), expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(("loss", "outputs"), LOSSES)
def test_each_fold_is_predicted_by_a_model_without_it(loss, outputs):
    given, fit = trained(loss, outputs)
    folds = given.folds.numpy() % FOLDS
    for fold, one in enumerate(fit.model.without):
        own = torch.from_numpy(folds == fold)
        torch.testing.assert_close(fit.predictions[own], one.predict(given.X[folds == fold]))
    some = torch.tensor([2, 40, 41])
    kept = fit.model.kept_rows(given, some)
    again = fit.model.without_own(given.X[some.numpy()], kept)
    torch.testing.assert_close(again, fit.predictions[some])
    assert not fit.model.changes(given.X[:4], kept).any()
    changed = given._replace(y=torch.where(torch.from_numpy(folds == 0), given.y.flip(0), given.y))
    other = BoostingRecipe().train(changed, seed=3)[0]
    first = torch.from_numpy(folds == 0)
    if given.classes is None:  # labels of a fold do not matter for its own predictions
        torch.testing.assert_close(other.predictions[first], fit.predictions[first])


@pytest.mark.parametrize(("loss", "outputs"), LOSSES)
def test_files(loss, outputs):
    given, fit = trained(loss, outputs)
    settings, tensors = fit.model.state()
    width = given.width
    again = Boosting.restore(settings, tensors, width)
    fresh = rows(20, seed=5)
    torch.testing.assert_close(again.predict(fresh), fit.model.predict(fresh), rtol=0, atol=0)


def test_a_class_that_a_fold_lacks():
    """A class of one row is absent where its fold is left out, and improbable there."""
    given = table("cross_entropy", outputs=3)
    y = torch.where(torch.arange(len(given.y)) == 7, 2, given.y % 2)
    fit = BoostingRecipe().train(given._replace(y=y), seed=0)[0]
    assert torch.isfinite(fit.predictions).all()
    torch.testing.assert_close(fit.predictions.sum(1), torch.ones(len(y)).double())
    assert fit.predictions[7, 2] < 0.05


def test_it_is_for_large_tables_with_one_target():
    recipe = BoostingRecipe(fewest=1000)
    assert recipe.suits(TableSize(1000, 5, 1, True))
    assert not recipe.suits(TableSize(999, 5, 1, True))
    assert not recipe.suits(TableSize(2000, 5, 2, False))
    assert recipe.suits(TableSize(2000, 5, 4, True))
    assert not recipe.suits(TableSize(1999, 5, 4, True))


def test_a_saved_mixture_predicts_the_same(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    for y, kind in (
        (np.sign(X[:, 0] * X[:, 1]) + 0.1 * rng.normal(size=300), dd.DecoupledRegressor),
        ((X[:, 0] * X[:, 1] > 0).astype(int), dd.DecoupledClassifier),
    ):
        model = kind(features="linear", members=["boosting"]).fit(X, y)
        assert model.mixture_.others[0].share > 0.5
        loaded = dd.load_model(dd.save_model(model, tmp_path / "model.safetensors"))
        np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
        found = [one.column for one in importance(model, X)[:2]]
        assert set(found) == {"column 0", "column 1"}
