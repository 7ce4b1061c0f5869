"""Fits along a grid of ridges: where they start, where they end, and what is left out."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.tables.features.kernel_map import Kernel
from decoupled_descent.tables.search import ridge_fits as module
from decoupled_descent.tables.search.fits import fitted_outputs
from decoupled_descent.tables.search.search import search_models
from tests.tables.search.problems import evaluated
from tests.tables.search.test_search import FEW, log_loss, predicted, products, several, straight


@pytest.mark.parametrize("data", [straight, several])
def test_where_fits_start_saves_steps_and_changes_nothing(data):
    """Each fit of the search is the one that training from zero reaches, in fewer steps."""
    X, y = data()
    asked = {"features": FEW, "outputs": 3 if data is several else 1, "progress": False}
    result = search_models(X, y, "cross_entropy" if data is several else "logistic", **asked)
    steps = {"search": 0, "zero": 0}
    for one in result.fits:
        alone = dd.fit(one.rows, None, result.objective, dd.DecoupledNewton(one.ridge), 100)
        outputs = alone.best_outputs.reshape(one.outputs.shape)
        torch.testing.assert_close(one.outputs, outputs, rtol=1e-3, atol=2e-4)
        steps["search"] += len(one.run.train_error)
        steps["zero"] += len(alone.train_error)
    assert steps["search"] < 0.9 * steps["zero"]


def test_the_first_fit_of_a_map_starts_near_the_outputs_of_another():
    X, y = straight()
    result = search_models(X, y, "logistic", features="linear", ridge=1.0, progress=False)
    outputs = fitted_outputs(result.best)
    phi = Kernel("rbf").fit_transform(torch.from_numpy(X))
    rows = dd.Rows(phi, y)
    place = module.FitInputs(rows, rows, result.objective, None, outputs=outputs)
    state = module._start(place, 1e-6)
    (shift,) = state.head.values()
    torch.testing.assert_close(phi @ state.theta.T + shift, outputs, rtol=1e-2, atol=1e-2)
    strong = module._start(place, 1e6)
    assert float(strong.theta.abs().max()) < 1e-3
    torch.testing.assert_close(next(iter(strong.head.values())), outputs.mean(0))


def test_a_start_with_saturated_probabilities_is_left_for_zero():
    X, y = several(40)
    outputs = torch.tensor([[-20.0, 60.0, -40.0]]).double().expand(40, 3)  # of another map
    phi = Kernel("rbf").fit_transform(torch.from_numpy(X))
    rows = dd.Rows(phi, y)
    objective = dd.Objective(dd.heads.Linear(3, intercept=True).double(), "cross_entropy")
    place = module.FitInputs(rows, rows, objective, None, outputs=outputs)
    one = module.RankedMap(Kernel("rbf"), 0.0, None, None, None)
    fitted = module._fitted(one, place, 0.1, module._start(place, 0.1))
    alone = dd.fit(rows, None, objective, dd.DecoupledNewton(0.1), 100)
    torch.testing.assert_close(fitted.outputs, alone.best_outputs, rtol=1e-3, atol=2e-4)


def test_products_and_influences_are_not_kept_when_a_map_is_done():
    X, y = straight()
    result = search_models(X, y, "logistic", features=FEW, progress=False)
    others = [one for one in result.fits if one.features is not result.best.features]
    assert others
    assert not any(one.rows.kept for one in others)


def test_the_walk_ends_at_a_ridge_with_worse_neighbours():
    X, y = straight()
    result = search_models(X, y, "logistic", features="linear", progress=False)
    walked = sorted(result.fits, key=lambda one: -one.ridge)
    ridges = np.array([one.ridge for one in walked])
    errors = np.array([one.error for one in walked])
    place = int(errors.argmin())
    assert 0 < place < len(ridges) - 1
    np.testing.assert_allclose(ridges[:-1] / ridges[1:], 10**0.5)


def test_kernels_after_the_best_one_have_one_ridge():
    """It is the first guess of the ranking, corrected as the ridge of the best kernel was."""
    X, y = products(150)
    result = search_models(X, y, "logistic", features=FEW, progress=False)
    by_name = {}
    for one in result.fits:
        by_name.setdefault(one.features.name, []).append(one)
    counts = {name: len(fits) for name, fits in by_name.items()}
    best = next(name for name in counts if name != "linear")
    assert counts["linear"] > 1
    assert counts[best] > 1
    assert all(count == 1 for name, count in counts.items() if name not in ("linear", best))
    assert len(counts) > 2


def test_a_kernel_that_needs_no_ridge_does_not_take_it_from_others():
    """Products separate these classes: the best ridge is far below the first guess."""
    X = torch.randint(1, 6, (400, 4), generator=torch.Generator().manual_seed(0)).double()
    torque = X[:, 0] * X[:, 1] - X[:, 2] * X[:, 3]
    X, y = X[torque != 0], (torque[torque != 0] > 0).double()
    features = ["poly2(1)", "matern(4)", "rbf(0.6)"]
    result = search_models(X, y, "logistic", features=features, progress=False)
    ridges = {}
    for one in result.fits:
        ridges.setdefault(one.features.name, []).append(one.ridge)
    walked = ridges.pop("poly2(1)")
    assert max(walked) > 1e3 * min(walked)
    assert all(len(each) == 1 for each in ridges.values())
    assert all(ridge >= 0.999 * 10**module.LOWEST for (ridge,) in ridges.values())


def test_ridges_of_many_rows_are_chosen_on_some(monkeypatch):
    X, y = products(400)
    monkeypatch.setattr(module, "SAMPLED", 100)
    result = search_models(X, y, "logistic", features=FEW, progress=False)
    names = {one.features.name for one in result.fits}
    assert "linear" in names  # always fitted, although it cannot see products
    assert all(one.rows.n == 400 for one in result.fits)
    fresh, labels = products(3000, seed=7)
    losses = log_loss(predicted(result, fresh), labels)
    assert abs(evaluated(result).error - losses.mean()) < 3 * evaluated(result).stderr
