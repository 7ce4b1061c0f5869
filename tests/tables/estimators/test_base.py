"""What both estimators share: options, rows of weight zero, tags."""

import inspect
import pickle

import numpy as np
import pytest
from sklearn.base import clone

import decoupled_descent as dd
from decoupled_descent.tables.estimators.inputs import check_level
from tests.tables.estimators.problems import binary, real

Classifier, Regressor = dd.DecoupledClassifier, dd.DecoupledRegressor
BOTH = pytest.mark.parametrize("kind", [Classifier, Regressor])


@BOTH
def test_options_are_the_constructors_and_nothing_else(kind):
    signature = inspect.signature(kind.__init__).parameters
    names = [name for name in signature if name != "self"]
    model = kind(ridge=2.0)
    assert sorted(vars(model)) == sorted(names) == sorted(model.get_params())
    assert model.ridge == 2.0
    assert ("class_weight" in names) == (kind is Classifier)
    with pytest.raises(TypeError):
        kind("linear")  # all by name
    assert clone(model).get_params() == model.get_params()
    assert repr(kind(ridge=2.0)) == f"{kind.__name__}(ridge=2.0)"


def test_tags_say_what_is_taken():
    for kind, several in ((Classifier, False), (Regressor, True)):
        assert kind().__sklearn_tags__().input_tags.sparse
        assert kind().__sklearn_tags__().target_tags.multi_output is several


@pytest.mark.parametrize("level", [0, 1, -0.5, "high", None, float("nan")])
def test_levels_that_make_no_sense(level):
    with pytest.raises(ValueError, match=r"level=.* must be between 0 and 1"):
        check_level(level)


@BOTH
def test_a_fitted_estimator_keeps_little(kind):
    """A row more adds its prediction and what intervals need, to a linear model of 6 columns."""
    sizes = []
    for n in (400, 800):
        X, y = binary(n) if kind is Classifier else real(n)
        sizes.append(len(pickle.dumps(kind(features="linear", ridge=1.0).fit(X, y))))
    assert (sizes[1] - sizes[0]) / 400 < 15 * 8


@BOTH
def test_the_curve_is_drawn_over_the_ridges(kind):
    X, y = binary(60) if kind is Classifier else real(60)
    model = kind(features="linear").fit(X, y)
    (axes,) = model.plot_training().axes
    assert "ridge" in axes.get_xlabel()
    assert (np.diff(model.ridges_) < 0).all()
    assert len(model.ridges_) == model.n_iter_ == len(model.train_error_curve_)
    assert model.train_error_curve_[model.best_iter_] == model.train_error_curve_.min()
