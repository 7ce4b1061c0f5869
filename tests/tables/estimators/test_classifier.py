"""The classifier: its estimate, its training, its labels and its symmetries."""

import copy
import math
import warnings

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.metrics import log_loss
from torch import nn

import decoupled_descent as dd
from decoupled_descent.objective import KinkWarning
from tests.tables.estimators.problems import (
    CHEAP,
    UNUSED,
    binary,
    by_hand,
    features,
    own_head,
    scaled,
    several,
)

X, Y = binary()
X3, Y3 = several()
FRESH = features(40, 6, seed=99)


def cheap(**options):
    return dd.DecoupledClassifier(**(CHEAP | options))


def chosen(model):
    (one,) = [candidate for candidate in model.candidates_ if candidate["chosen"]]
    return one


@pytest.mark.parametrize("data", [(X, Y), (X3, Y3), binary(500)], ids=["two", "three", "many"])
def test_the_estimate_is_what_corrected_probabilities_give(data):
    X, y = data
    model = dd.DecoupledClassifier(method="orthogonal", max_iter=25).fit(X, y)
    assert model.corrected_proba_.shape == (len(X), len(set(y)))
    np.testing.assert_allclose(model.corrected_proba_.sum(1), 1)
    losses = -np.log(model.corrected_proba_[np.arange(len(y)), y])
    assert losses.mean() == pytest.approx(log_loss(y, model.corrected_proba_))
    result = chosen(model)
    assert result["error"] == pytest.approx(losses.mean(), rel=1e-5)
    assert result["error"] == min(candidate["error"] for candidate in model.candidates_)
    assert result["error"] == model.train_error_curve_.min()
    assert result["step"] == model.best_iter_ == model.train_error_curve_.argmin()
    assert result["stderr"] == pytest.approx(losses.std(ddof=1) / math.sqrt(len(y)), rel=1e-4)
    right = model.corrected_proba_.argmax(1) == y
    assert model.estimated_accuracy_ == right.mean()
    widening = model.estimated_test_error_stderr_ / result["stderr"]
    assert widening >= 1 - 1e-6
    share, n = (right.sum() + 2) / (len(y) + 4), len(y) + 4  # Agresti and Coull
    spread = math.sqrt(share * (1 - share) / n)
    assert model.estimated_accuracy_stderr_ == pytest.approx(widening * spread, rel=1e-4)


def test_the_best_of_several_is_corrected_for_having_been_chosen():
    model = dd.DecoupledClassifier(method="orthogonal", max_iter=25).fit(X, Y)
    sweep = by_hand(model, X, torch.tensor(Y).float(), "logistic", deep(8, 1))
    correction = dd.evaluation.winners_curse(sweep.losses)
    assert correction.optimism > 0
    assert model.estimated_test_error_ == pytest.approx(correction.error, rel=1e-6)
    alone = cheap().fit(X, Y)
    assert alone.estimated_test_error_ == pytest.approx(chosen(alone)["error"], rel=1e-6)


def test_the_interval_widens_with_the_correction():
    """δ: how far the correction moves the error, in standard deviations of a row's loss."""
    X, y = binary(500, d=60, strength=1.0)
    options = {"method": "decoupled", "max_iter": 60, "early_stopping": False}
    model = cheap(**options | UNUSED["decoupled"]).fit(X, y)
    losses = -np.log(model.corrected_proba_[np.arange(len(y)), y])
    delta = (losses.mean() - log_loss(y, model.predict_proba(X))) / losses.std(ddof=1)
    assert delta > 0.05
    result = model.estimated_test_error_stderr_ / (losses.std(ddof=1) / math.sqrt(len(losses)))
    deviations = losses - losses.mean()
    rows = (deviations**2).sum() ** 2 / (deviations**4).sum()
    student = stats.t.ppf(0.975, 2 * rows) / stats.norm.ppf(0.975)
    assert result == pytest.approx(math.hypot(1, 2 * delta) * student, rel=1e-4)


def test_the_accuracy_is_never_certain():
    rows = np.r_[np.full((40, 2), -3.0), np.full((40, 2), 3.0)] + features(80, 2, seed=9)
    model = cheap(max_iter=100).fit(rows, np.repeat([0, 1], 40))
    assert model.estimated_accuracy_ == 1
    assert model.estimated_accuracy_stderr_ > 1 / 80  # the rule of three: up to 3/n wrong


def test_gradient_descents_corrected_probabilities_are_its_predictions():
    model = cheap(method="gradient", **UNUSED["gradient"]).fit(X, Y)
    np.testing.assert_allclose(model.corrected_proba_, model.predict_proba(X), atol=1e-5)
    assert model.diagnostics_.verdict == "do not trust"
    assert not np.allclose(cheap().fit(X, Y).corrected_proba_, model.predict_proba(X), atol=1e-2)


@pytest.mark.slow
def test_the_estimate_is_honest():
    """Means of z over 12 draws, whose spread of at most 1.3 leaves them 3 · 1.3/√12 = 1.13."""
    seen = {"orthogonal": [], "decoupled": [], "gradient": []}
    for method, result in seen.items():
        for seed in range(12):
            X, y = binary(20_400, d=40, seed=seed, strength=2.0)
            fresh, answers = X[400:], y[400:]
            options = {"method": method, "max_iter": 150, "random_state": seed}
            model = cheap(**options | UNUSED[method]).fit(X[:400], y[:400])
            error = log_loss(answers, model.predict_proba(fresh))
            accuracy = model.score(fresh, answers)
            result.append(
                (
                    (model.estimated_test_error_ - error) / model.estimated_test_error_stderr_,
                    (accuracy - model.estimated_accuracy_) / model.estimated_accuracy_stderr_,
                )
            )
    bound = 3 * 1.3 / math.sqrt(12)
    means = {method: np.mean(result, 0) for method, result in seen.items()}
    assert np.abs(means["orthogonal"]).max() < bound
    assert np.abs(means["decoupled"]).max() < bound
    assert means["gradient"].max() < -3 * bound
    assert np.std(seen["orthogonal"], 0, ddof=1).max() < 1.3 * 1.69  # √(χ²/11), 0.1 %


def deep(width, outputs):
    return lambda seed: dd.heads.Deep((width,), "tanh", outputs, bias=True, seed=seed)


@pytest.mark.parametrize(
    ("X", "y", "loss", "head"),
    [
        (X, torch.tensor(Y).float(), "logistic", deep(8, 1)),
        (X3, torch.tensor(Y3), "cross_entropy", deep(12, 3)),
        (*several(560, classes=4), "cross_entropy", deep(16, 4)),
    ],
    ids=["two", "three", "many rows"],
)
def test_training_is_a_sweep_by_hand(X, y, loss, head):
    y = torch.as_tensor(y)
    model = dd.DecoupledClassifier(method="orthogonal", max_iter=40, random_state=5).fit(
        X, y.long().numpy()
    )
    sweep = by_hand(model, X, y, loss, head)
    best = sweep.best
    assert [c["chosen"] for c in model.candidates_].index(True) == sweep.best_index
    np.testing.assert_array_equal(model.train_error_curve_, best.train_error)
    widened = model.diagnostics_.widening * best.train_error_stderr
    np.testing.assert_array_equal(model.train_error_stderr_curve_, widened)
    np.testing.assert_array_equal(model.theta_, best.best_theta.double())
    assert (model.n_iter_, model.stop_reason_) == (len(best.train_error), str(best.stop_reason))
    predicted = best.predict(scaled(X), best=True).reshape(len(X), -1)
    mine = model.decision_function(X).reshape(len(X), -1)
    np.testing.assert_allclose(mine, predicted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("method", "kind"),
    [
        ("orthogonal", dd.OrthogonalDecoupledDescent),
        ("decoupled", dd.DecoupledDescent),
        ("gradient", dd.GradientDescent),
    ],
)
def test_methods(method, kind):
    model = dd.DecoupledClassifier(method=method, max_iter=10).fit(X, Y)
    assert type(model.algorithm_) is kind
    assert model.score(X, Y) > 0.5
    assert len(model.candidates_) == {"orthogonal": 6, "decoupled": 3, "gradient": 1}[method]


def test_numbers_are_used_as_given():
    options = {"lr": np.float32(0.5), "damping": 1, "ridge": 2}
    model = dd.DecoupledClassifier(**options, max_iter=np.int64(7)).fit(X, Y)
    assert len(model.candidates_) == 1
    result = model.algorithm_
    assert (result.lr, result.damping, result.ridge, model.n_iter_) == (0.5, 1, 2, 7)


@pytest.mark.parametrize("hidden", [3, (3,), (5, 2), [4, 3, 2]])
def test_hidden_widths(hidden):
    model = cheap(hidden=hidden, activation="sigmoid").fit(X, Y)
    widths = [hidden] if isinstance(hidden, int) else list(hidden)
    assert model.theta_.shape == (widths[0], 6)
    layers = [module for module in model.head_ if isinstance(module, nn.Linear)]
    assert [layer.in_features for layer in layers] == widths
    assert isinstance(model.head_[0], nn.Sigmoid)


def test_early_stopping_keeps_the_best_iterate():
    X, y = binary(d=30, strength=0.5)
    start = {"max_iter": 200, "random_state": 5}  # from which the error comes to rise
    stopped = cheap(**start).fit(X, y)
    complete = cheap(**start, early_stopping=False).fit(X, y)
    assert stopped.n_iter_ < 200 == complete.n_iter_
    assert stopped.stop_reason_ == "rising"
    assert complete.stop_reason_ == "steps exhausted"
    assert stopped.best_iter_ < 100
    assert stopped.n_iter_ == 131
    reached = len(stopped.train_error_curve_)
    np.testing.assert_array_equal(stopped.train_error_curve_, complete.train_error_curve_[:reached])
    assert complete.train_error_curve_.argmin() == complete.best_iter_


def test_own_head_is_trained_as_a_copy():
    head = own_head()
    before = copy.deepcopy(head.state_dict())
    model = cheap(head=head).fit(X, Y)
    torch.testing.assert_close(head.state_dict(), before, rtol=0, atol=0)
    assert model.theta_.shape == (4, 6)
    assert not torch.equal(model.head_[0].weight, head[0].weight)
    h = torch.tensor((np.clip((FRESH - X.mean(0)) / X.std(0), -5, 5) / 6**0.5) @ model.theta_.T)
    expected = copy.deepcopy(model.head_).double()(h).detach().squeeze(1)
    np.testing.assert_allclose(model.decision_function(FRESH), expected)


def test_a_head_with_kinks_is_announced_once():
    head = nn.Sequential(nn.ReLU(), nn.Linear(4, 1))
    for options in ({"head": head}, {"activation": "relu"}):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            dd.DecoupledClassifier(method="orthogonal", max_iter=5, **options).fit(X, Y)
        assert [warning.category for warning in caught] == [KinkWarning]


def test_swapping_the_labels_swaps_the_probabilities():
    """A head that starts from minus the outputs sees the mirror image of the same problem."""
    head, mirrored = own_head(), own_head()
    with torch.no_grad():
        for parameter in mirrored[2].parameters():
            parameter.neg_()
    one, other = cheap(head=head).fit(X, Y), cheap(head=mirrored).fit(X, 1 - Y)
    np.testing.assert_allclose(
        one.predict_proba(FRESH), other.predict_proba(FRESH)[:, ::-1], atol=1e-5
    )
    np.testing.assert_allclose(one.train_error_curve_, other.train_error_curve_, rtol=1e-5)


def test_permuting_the_classes_permutes_the_probabilities():
    order = [2, 0, 1]  # class k becomes class order[k]
    head, permuted = own_head(outputs=3), own_head(outputs=3)
    with torch.no_grad():
        for parameter, original in zip(permuted[2].parameters(), head[2].parameters(), strict=True):
            parameter[order] = original
    one = cheap(head=head).fit(X3, Y3)
    other = cheap(head=permuted).fit(X3, np.array(order)[Y3])
    np.testing.assert_allclose(
        one.predict_proba(FRESH), other.predict_proba(FRESH)[:, order], atol=1e-5
    )


@pytest.mark.parametrize(
    "names",
    [["no", "yes"], [False, True], [-1, 1], [0.0, 1.0], [7, 100]],
    ids=["text", "bool", "signs", "float", "int"],
)
def test_labels_of_any_kind(names):
    names = np.array(names)
    model, plain = cheap().fit(X, names[Y]), cheap().fit(X, Y)
    np.testing.assert_array_equal(model.classes_, names)
    assert model.predict(FRESH).dtype == names.dtype
    np.testing.assert_array_equal(model.predict_proba(FRESH), plain.predict_proba(FRESH))
    np.testing.assert_array_equal(model.predict(FRESH), names[plain.predict(FRESH)])
    assert model.estimated_test_error_ == plain.estimated_test_error_


def test_objects_as_labels():
    names = np.array(["zebra", "ant", "cat"], dtype=object)
    model = cheap().fit(X3, names[Y3])
    assert list(model.classes_) == ["ant", "cat", "zebra"]
    assert model.score(X3, names[Y3]) > 0.7


def test_two_classes_have_one_logit():
    model = cheap().fit(X, Y)
    logits, proba = model.decision_function(FRESH), model.predict_proba(FRESH)
    assert logits.shape == (40,)
    np.testing.assert_allclose(proba[:, 1], 1 / (1 + np.exp(-logits)), rtol=1e-12)
    np.testing.assert_allclose(proba.sum(1), 1)
    np.testing.assert_array_equal(model.predict(FRESH), (logits > 0).astype(int))


def test_several_classes_have_a_logit_each():
    model = cheap().fit(X3, Y3)
    logits, proba = model.decision_function(FRESH), model.predict_proba(FRESH)
    assert logits.shape == proba.shape == (40, 3)
    np.testing.assert_allclose(proba, torch.tensor(logits).softmax(1), rtol=1e-12)
    np.testing.assert_array_equal(model.predict(FRESH), logits.argmax(1))


@pytest.mark.parametrize("rare", [1, 2, 6])
def test_imbalanced_labels(rare):
    y = (np.arange(120) < rare).astype(int)
    model = cheap().fit(X, y)
    assert math.isfinite(model.estimated_test_error_)
    assert model.estimated_accuracy_ > 0.9
    statuses = {finding.name: finding.status for finding in model.diagnostics_.findings}
    assert statuses["smallest class"] == ("alarm" if rare < 5 else "caution")


def test_the_scale_and_origin_of_columns_do_not_matter():
    rng = np.random.default_rng(1)
    factor, shift = np.exp(rng.normal(size=6) * 4), 100 * rng.normal(size=6)
    one, other = cheap().fit(X, Y), cheap().fit(X * factor + shift, Y)
    proba = other.predict_proba(FRESH * factor + shift)
    np.testing.assert_allclose(one.predict_proba(FRESH), proba, atol=1e-5)
    assert one.estimated_test_error_ == pytest.approx(other.estimated_test_error_, rel=1e-5)


def test_the_order_of_rows_does_not_matter_without_folds():
    X, y = binary(500)
    order = np.random.default_rng(0).permutation(500)
    options = {"method": "decoupled"} | UNUSED["decoupled"]
    one, other = cheap(**options).fit(X, y), cheap(**options).fit(X[order], y[order])
    np.testing.assert_allclose(one.predict_proba(FRESH), other.predict_proba(FRESH), atol=1e-5)
    np.testing.assert_allclose(one.corrected_proba_[order], other.corrected_proba_, atol=1e-5)


def test_outliers_are_cut_off():
    model, further = cheap().fit(X, Y), FRESH.copy()
    further[:, 1] = model.mean_[1] + 5 * model.scale_[1]
    at_bound = model.predict_proba(further)
    further[:, 1] = model.mean_[1] + 1e9 * model.scale_[1]
    np.testing.assert_allclose(model.predict_proba(further), at_bound, rtol=1e-9)
    rows = X.copy()
    rows[0, 0] = 1e6
    model.fit(rows, Y)
    inside = rows.copy()
    inside[0, 0] = model.mean_[0] + 5 * model.scale_[0]  # of 11 deviations
    np.testing.assert_allclose(model.predict_proba(rows), model.predict_proba(inside), rtol=1e-9)


def test_constant_columns_are_ignored():
    padded = np.c_[X, np.full(120, 0.1), np.zeros(120), np.full(120, 1e9)]
    model = cheap().fit(padded, Y)
    assert np.isinf(model.scale_[6:]).all()
    assert np.isfinite(model.scale_[:6]).all()
    fresh = np.c_[FRESH, features(40, 3, seed=3)]
    other = np.c_[FRESH, 1e6 * features(40, 3, seed=4)]
    np.testing.assert_array_equal(model.predict_proba(fresh), model.predict_proba(other))


def test_constant_columns_leave_the_scale_of_the_rows():
    padded = np.c_[X, np.zeros((120, 18))]
    model = cheap(method="decoupled", **UNUSED["decoupled"]).fit(padded, Y)
    (result,) = [f for f in model.diagnostics_.findings if f.name == "scale"]
    assert result.value < 0.01


def test_many_whole_numbers_are_perhaps_quantities():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.arange(60) % 25
    model = dd.DecoupledClassifier(features="linear", ridge=1.0, stack=False)
    with pytest.warns(UserWarning, match="25 different whole numbers in 60 rows.*Regressor"):
        model.fit(X, y)
    model.fit(X, y.astype(str))  # texts are classes
