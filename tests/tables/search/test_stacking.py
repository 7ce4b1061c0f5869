"""Mixtures of candidates against general minimisers."""

import numpy as np
import pytest
import torch
from scipy.optimize import minimize

from decoupled_descent.objective.losses import get_loss
from decoupled_descent.tables.search import stacking
from decoupled_descent.tables.search.stacking import (
    cross_fitted_choice,
    cross_fitted_weights,
    folds_of,
    stack_weights,
)
from tests.problems import normal

F, N, K = 4, 60, 3


def mixed_losses(loss, weights, predictions, y):
    return loss.of_predictions(torch.einsum("f,fnk->nk", weights, predictions), y)


def classes(seed=0):
    """What F candidates say of n rows: noisy versions of the truth, of different quality."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randint(K, (N,), generator=generator)
    truth = torch.nn.functional.one_hot(y, K).double()
    noise = normal(F, N, K, seed=seed + 1) * torch.tensor([1.0, 1.5, 2.0, 3.0]).reshape(F, 1, 1)
    return torch.softmax(1.5 * truth + noise, 2), y


def numbers(seed=0, outputs=1):
    y = normal(N, outputs, seed=seed)
    noise = normal(F, N, outputs, seed=seed + 1) * torch.tensor([0.5, 0.7, 1.0, 2.0]).reshape(
        F, 1, 1
    )
    return y + noise + 0.1, y


def counts(seed=0):
    said, y = numbers(seed)
    return said.exp(), torch.poisson(y.exp(), generator=torch.Generator().manual_seed(seed))


def shares(weighted):
    return normal(N, seed=9).abs() + 0.2 if weighted else torch.ones(N, dtype=torch.float64)


def error(loss, weights, said, y, share):
    """The weighted mean loss of a mixture, in NumPy, with one more row dealt to all candidates."""
    mixed = np.einsum("f,fnk->nk", weights, said.numpy())
    if loss == "squared":
        losses = 0.5 * ((mixed - y.numpy()) ** 2).sum(1)
    elif loss == "poisson":
        losses = (mixed - y.numpy() * np.log(mixed)).sum(1)
    else:
        losses = -np.log(mixed[np.arange(N), y.numpy()])
        dealt = -np.log(np.maximum(weights, 1e-300)).mean()
        return (losses @ share.numpy() + dealt) / (share.numpy().sum() + 1)
    return np.average(losses, weights=share.numpy())


def best_on_the_simplex(loss, said, y, share):
    """The lowest error over several starts of a general minimiser."""
    rng = np.random.default_rng(0)
    sum_is_one = {"type": "eq", "fun": lambda w: w.sum() - 1}
    result = [
        minimize(
            lambda w: error(loss, np.clip(w, 0, 1), said, y, share),
            rng.dirichlet(np.ones(F)),
            method="SLSQP",
            bounds=[(0, 1)] * F,
            constraints=sum_is_one,
            options={"ftol": 1e-12, "maxiter": 500},
        )
        for _ in range(3)
    ]
    return min(result, key=lambda one: one.fun)


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", ["cross_entropy", "squared", "poisson"])
def test_weights_are_the_best_on_the_simplex(loss, weighted):
    predictions, y = {"squared": numbers, "poisson": counts}.get(loss, classes)()
    share = shares(weighted)
    weights = stack_weights(get_loss(loss), predictions, y, share).numpy()
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)
    best = best_on_the_simplex(loss, predictions, y, share)
    assert error(loss, weights, predictions, y, share) <= best.fun + 1e-4
    np.testing.assert_allclose(weights, best.x, atol=0.02 if loss == "cross_entropy" else 1e-3)


def test_a_sample_without_mistakes_does_not_silence_the_others():
    """The surest candidate has made no mistake in N rows; the others keep a share of one row."""
    sure = torch.tensor([0.999, 0.9, 0.8, 0.6]).double().reshape(F, 1, 1).expand(F, N, 1)
    predictions, y = torch.cat([sure, 1 - sure], 2), torch.zeros(N).long()
    weights = stack_weights(get_loss("logistic"), predictions, y, shares(False))
    assert int(weights.argmax()) == 0
    assert float(weights.min()) >= 1 / (F * (N + 1))
    none = stack_weights(get_loss("logistic"), predictions, y, shares(False), extra=0.0)
    assert float(none.min()) < float(weights.min())


def test_least_squares_against_brute_force():
    predictions, y = numbers(seed=3, outputs=2)
    predictions, share = predictions[:3], shares(True)
    weights = stack_weights(get_loss("squared"), predictions, y, share).numpy()
    grid = np.linspace(0, 1, 101)
    tried = [(a, b, 1 - a - b) for a in grid for b in grid if a + b <= 1 + 1e-9]
    errors = [error("squared", np.array(w), predictions, y, share) for w in tried]
    assert error("squared", weights, predictions, y, share) <= min(errors) + 1e-9
    np.testing.assert_allclose(weights, tried[int(np.argmin(errors))], atol=0.011)


def test_copies_of_a_candidate_share_its_weight():
    predictions, y = numbers()
    weights = stack_weights(get_loss("squared"), predictions[[0, 0, 3]], y, shares(False))
    alone = stack_weights(get_loss("squared"), predictions[[0, 3]], y, shares(False))
    torch.testing.assert_close(weights[:2].sum(), alone[0], atol=1e-4, rtol=0)


def test_certain_candidates_that_are_wrong_cost_a_finite_loss():
    predictions = torch.tensor([[[1.0, 0.0], [1.0, 0.0]], [[0.5, 0.5], [0.5, 0.5]]]).double()
    y = torch.tensor([0, 1])
    weights = stack_weights(get_loss("logistic"), predictions, y, torch.ones(2).double())
    losses = mixed_losses(get_loss("logistic"), weights, predictions, y)
    assert torch.isfinite(losses).all()
    assert torch.isfinite(
        mixed_losses(get_loss("logistic"), torch.tensor([1.0, 0.0]).double(), predictions, y)
    ).all()


def cross_fitted(loss, predictions, y, *args, **options):
    """Losses of each row under a mixture that was chosen without the row's fold, shape (n,)."""
    weights = cross_fitted_weights(loss, predictions, y, *args, **options)
    return loss.of_predictions(torch.einsum("nf,fnk->nk", weights, predictions), y)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize("loss", ["cross_entropy", "squared"])
def test_rows_are_judged_by_weights_that_have_not_seen_them(loss, grouped):
    predictions, y = numbers() if loss == "squared" else classes()
    groups = torch.arange(N) // 3 if grouped else None
    folds, share = folds_of(N, groups, 0), shares(True)
    losses = cross_fitted(get_loss(loss), predictions, y, share, folds)
    assert int(folds.max()) + 1 == stacking.FOLDS
    for fold in range(stacking.FOLDS):
        own = folds == fold
        weights = stack_weights(get_loss(loss), predictions[:, ~own], y[~own], share[~own])
        expected = mixed_losses(get_loss(loss), weights, predictions[:, own], y[own])
        torch.testing.assert_close(losses[own], expected, atol=2e-3, rtol=0)
        if groups is not None:
            assert not set(groups[own].tolist()) & set(groups[~own].tolist())


def test_cross_fitting_with_few_groups_and_the_same_seed():
    predictions, y = classes()
    groups = torch.arange(N) % 3
    first = cross_fitted(
        get_loss("cross_entropy"), predictions, y, shares(False), folds_of(N, groups, 0)
    )
    assert torch.equal(
        first,
        cross_fitted(
            get_loss("cross_entropy"), predictions, y, shares(False), folds_of(N, groups, 0)
        ),
    )
    for label in range(3):  # three groups make three folds
        held = groups == label
        weights = stack_weights(
            get_loss("cross_entropy"), predictions[:, ~held], y[~held], shares(False)[~held]
        )
        expected = mixed_losses(get_loss("cross_entropy"), weights, predictions[:, held], y[held])
        torch.testing.assert_close(first[held], expected, atol=1e-3, rtol=0)


def test_cross_fitted_losses_are_not_optimistic():
    """With candidates that know nothing, fitted weights look better than they are."""
    predictions = torch.softmax(normal(30, N, 2, seed=1), 2)
    y = torch.arange(N) % 2
    weights = stack_weights(get_loss("logistic"), predictions, y, shares(False))
    fitted = mixed_losses(get_loss("logistic"), weights, predictions, y).mean()
    losses = cross_fitted(
        get_loss("logistic"), predictions, y, shares(False), folds_of(N, None, 0)
    ).mean()
    assert fitted < losses
    assert losses > np.log(2) - 0.05


def test_a_fold_is_judged_by_the_candidates_that_it_may_know():
    predictions, y = classes()
    folds = folds_of(N, None, 0)
    selected = torch.ones(stacking.FOLDS + 1, F, dtype=torch.bool)
    selected[0, 1:], selected[1] = False, False
    free = cross_fitted(get_loss("cross_entropy"), predictions, y, shares(False), folds)
    losses = cross_fitted(
        get_loss("cross_entropy"), predictions, y, shares(False), folds, selected=selected
    )
    alone = mixed_losses(get_loss("cross_entropy"), torch.ones(1).double(), predictions[:1], y)
    torch.testing.assert_close(losses[folds == 0], alone[folds == 0])
    torch.testing.assert_close(
        losses[folds > 0], free[folds > 0]
    )  # with none selected, all are used


def test_predictions_without_the_fold_choose_the_mixture_that_judges_it():
    predictions, y = classes()
    folds = folds_of(N, None, 0)
    without = predictions.unsqueeze(1).repeat(1, stacking.FOLDS, 1, 1)
    without[:, 3] = predictions.flip(0)
    losses = cross_fitted(
        get_loss("cross_entropy"), predictions, y, shares(False), folds, fold_predictions=without
    )
    plain = cross_fitted(get_loss("cross_entropy"), predictions, y, shares(False), folds)
    held = folds == 3
    torch.testing.assert_close(losses[~held], plain[~held])
    weights = stack_weights(
        get_loss("cross_entropy"), predictions[:, ~held], y[~held], shares(False)[~held]
    )
    expected = mixed_losses(
        get_loss("cross_entropy"), weights.flip(0), predictions[:, held], y[held]
    )
    torch.testing.assert_close(losses[held], expected, atol=1e-3, rtol=0)


def test_a_choice_is_made_without_the_fold_that_it_predicts():
    predictions, y = classes()
    folds = folds_of(N, None, 0)
    loss = get_loss("cross_entropy")
    weights = cross_fitted_choice(loss, predictions, y, shares(False), folds)
    assert torch.equal(weights.sum(1), torch.ones(N).double())
    for fold in range(stacking.FOLDS):
        held = folds == fold
        errors = [float(loss.of_predictions(one, y)[~held].sum()) for one in predictions]
        assert (weights[held].argmax(1) == int(np.argmin(errors))).all()
