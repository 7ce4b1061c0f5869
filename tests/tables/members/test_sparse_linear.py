"""Sparse linear members: folds, selected columns, files."""

import numpy as np
import pytest
import torch

from decoupled_descent.objective.losses import get_loss
from decoupled_descent.tables.members import sparse_linear
from decoupled_descent.tables.members.interface import TableSize, TrainingTable
from decoupled_descent.tables.members.sparse_linear import FOLDS, SparseLinear, SparseRecipe, path
from decoupled_descent.tables.members.standardised import column_moments as moments
from decoupled_descent.tables.search.stacking import folds_of


def table(kind="logistic", n=60, d=300, outputs=1, seed=0):
    """Two of many columns matter."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * 10 + 5
    X[:, 7] = 3.0  # constant
    signal = (X[:, :2] - 5) @ rng.uniform(1, 2, size=(2, 3)) * [1, -1, 0.5] / 10
    if kind == "squared":
        y = torch.from_numpy(signal[:, :outputs] + 0.1 * rng.normal(size=(n, outputs)))
        y = y[:, 0] if outputs == 1 else y
    elif kind == "logistic":
        y = torch.from_numpy((signal[:, 0] > 0).astype(float))
    else:
        y = torch.from_numpy(signal.argmax(1))
    loss = get_loss(kind)
    return TrainingTable(X, y, loss, outputs, None, None, folds_of(n, None, 0, loss.classes(y)))


CASES = [("logistic", 1), ("cross_entropy", 3), ("squared", 1), ("squared", 2)]


@pytest.mark.parametrize(("kind", "outputs"), CASES)
def test_columns_that_matter_are_found(kind, outputs):
    given = table(kind, n=90, outputs=outputs)
    fits = SparseRecipe().train(given, 0)
    best = min(fits, key=lambda one: float(given.errors(one.predictions)[-1]))
    columns = best.model.selected_columns()
    assert {one.column for one in columns[:2]} == {0, 1}
    assert all(one.stays_selected == 1.0 for one in columns[:2])
    assert len(columns[0].coefficients) == outputs
    assert best.model.coef.shape == (outputs, len(best.model.columns))
    fresh = table(kind, n=1000, outputs=outputs, seed=1)  # other coefficients of the same signs
    zero = given.loss.predictions(torch.zeros(90, outputs).double())
    usual, error = (float(given.errors(one)[-1]) for one in (zero, best.predictions))
    assert error < 0.6 * usual
    assert best.model.predict(fresh.X).shape == (1000, given.width)


@pytest.mark.parametrize(("kind", "outputs"), CASES)
def test_rows_are_predicted_without_their_fold(kind, outputs, monkeypatch):
    monkeypatch.setattr(sparse_linear, "steepest", lambda _: 0.2)  # the scale of the penalties
    given = table(kind, n=40, d=30, outputs=outputs)
    y = given.y.clone()
    first = given.folds % FOLDS == 0
    y[first] = y[first.nonzero()[:, 0].flip(0)]  # labels of a fold, in another order
    mean, scale = moments(given)
    folds = given.folds.numpy() % FOLDS
    tables = given, given._replace(y=y)
    one, other = (next(iter(path(each, mean, scale, folds))) for each in tables)
    torch.testing.assert_close(one.predictions[first], other.predictions[first])


def test_the_share_of_classes_stays():
    given = table("cross_entropy", outputs=3)
    left_out = np.arange(60) < 10
    weights = given.weights_without(left_out)
    classes = given.classes.numpy()
    np.testing.assert_allclose(np.bincount(classes, weights), np.bincount(classes), rtol=1e-12)
    assert not weights[left_out].any()


def test_changes_are_those_of_the_fold_models():
    given = table("squared")
    model = SparseRecipe().train(given, 0)[0].model
    some = torch.tensor([4, 9, 30])
    kept = model.kept_rows(given, some)
    changes = model.changes(given.X[:5], kept)
    assert changes.shape == (5, 3, 1)
    z = (given.X[:5][:, model.columns] - model.mean) / model.scale
    for place, row in enumerate(some.tolist()):
        fold = int(given.folds[row]) % FOLDS
        without = z @ model.fold_theta[fold] + model.fold_bias[fold]
        expected = without - model.predict(given.X[:5]).numpy()
        np.testing.assert_allclose(changes[:, place].numpy(), expected, atol=1e-12)
    own = model.changes(None, kept)
    torch.testing.assert_close(own, model.changes(given.X[some.numpy()], kept))


@pytest.mark.parametrize(("kind", "outputs"), CASES)
def test_files(kind, outputs):
    given = table(kind, outputs=outputs)
    model = SparseRecipe().train(given, 0)[0].model
    settings, tensors = model.state()
    again = SparseLinear.restore(settings, tensors, given.width)
    torch.testing.assert_close(again.predict(given.X), model.predict(given.X), rtol=0, atol=0)
    assert again.selected_columns() == model.selected_columns()
    assert again.name == model.name


def test_only_wide_tables_on_request():
    given = table(n=60, d=20)
    assert SparseRecipe().train(given, 0)
    assert SparseRecipe(only_wide=True).train(given, 0) == []
    assert SparseRecipe(only_wide=True).train(table(n=40, d=20), 0)


def test_the_choice_without_a_fold_does_not_see_its_labels():
    given = table("squared")
    fits = SparseRecipe().train(given, 0)
    marks = torch.stack([one.selected for one in fits])
    assert marks.shape[1] == 21
    assert marks.any(1).all()
    assert 2 <= marks[:, -1].sum() <= 3
    assert (marks.sum(0) >= 2).all()
    errors = torch.stack([given.errors(one.predictions) for one in fits])
    assert (marks.gather(0, errors.argmin(0).unsqueeze(0))).all()
    fold = given.folds == 3
    losses = given.loss.of_predictions(fits[0].predictions, given.y)
    torch.testing.assert_close(errors[0, 3], losses[~fold].mean())
    torch.testing.assert_close(errors[0, -1], losses.mean())


def test_operations_grow_with_the_table():
    size = TableSize(100, 10**6, 1, has_classes=True)
    small = SparseRecipe().operations(size)
    assert SparseRecipe().operations(size._replace(outputs=3)) == pytest.approx(3 * small)
    twice = SparseRecipe().operations(size._replace(columns=2 * 10**6))
    assert twice == pytest.approx(2 * small, rel=1e-2)
