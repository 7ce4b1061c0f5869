"""The search over features and ridges: what it finds, and how far its estimate is right."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.validation import ranking
from decoupled_descent.validation import search as module
from decoupled_descent.validation.found import row_count
from decoupled_descent.validation.search import search

FEW = ["linear", "rbf(1)", "matern(2)"]


def products(n=150, seed=0, noise=0.0):
    """y = sign(x₀ x₁): nothing for a linear model."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, torch.tensor((X[:, 0] * X[:, 1] + noise * rng.normal(size=n) > 0).astype(float))


def straight(n=100, d=5, seed=0):
    """Logistic regression of columns that are independent."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    chances = 1 / (1 + np.exp(-2 * X[:, 0] + X[:, 1]))
    return X, torch.tensor((rng.random(n) < chances).astype(float))


def several(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, torch.tensor((X[:, :3] + 0.5 * rng.normal(size=(n, 3))).argmax(1))


def numbers(n=120, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 3))
    return X, torch.tensor(np.sin(2 * X[:, 0]) + X[:, 1] + 0.3 * rng.normal(size=n))


def log_loss(said, y):
    return -np.log(said.numpy()[np.arange(len(y)), y.long().numpy()])


def test_it_finds_curvature():
    X, y = products()
    found = search(X, y, "logistic", progress=False)
    assert "linear" not in found.best.features.name
    fresh, labels = products(1000, seed=1)
    said = found.predict(fresh)
    assert float((said.argmax(1) == labels).double().mean()) > 0.85
    linear = [one for one in found.candidates if one.features.name == "linear"]
    assert linear  # it is fitted in any case
    assert min(one.error for one in linear) > found.estimate.error + 0.2


def test_linear_data_keep_the_linear_model():
    X, y = straight(200)
    found = search(X, y, "logistic", features=FEW, progress=False)
    linear = [one for one in found.candidates if one.features.name == "linear"]
    assert min(one.error for one in linear) < found.best.error + 0.01


@pytest.mark.parametrize(
    ("draw", "loss", "outputs"),
    [
        (straight, "logistic", 1),
        (several, "cross_entropy", 3),
        (numbers, "squared", 1),
        (products, "logistic", 1),
    ],
)
def test_the_estimate_is_the_error_on_fresh_rows(draw, loss, outputs):
    X, y = draw()
    found = search(X, y, loss, outputs=outputs, features=FEW, progress=False)
    fresh, labels = draw(3000, seed=7)
    said = found.predict(fresh)
    if loss == "squared":
        losses = 0.5 * (said[:, 0] - labels).square().numpy()
    else:
        losses = log_loss(said, labels)
    assert abs(found.estimate.error - losses.mean()) < 3 * found.estimate.stderr
    assert found.estimate.stderr > 0.5 * losses.std() / np.sqrt(len(y))
    assert found.estimate.error == pytest.approx(float(found.losses.mean()))


def test_members_are_mixed_by_their_weights():
    X, y = several()
    found = search(X, y, "cross_entropy", outputs=3, features=FEW, progress=False)
    assert float(found.weights.sum()) == pytest.approx(1)
    positive = found.weights[found.weights > 0]
    assert float(positive.min()) >= module.LEAST_WEIGHT
    shares = [share for share, _ in found.members]
    assert shares == sorted(shares, reverse=True)
    expected = sum(
        share
        * torch.softmax(
            one.features.transform(X) @ one.run.state.theta.T + one.run.head[0].bias.detach(), 1
        )
        for share, one in found.members
    )
    expected = (len(y) * expected + 1 / 3) / (len(y) + 1)  # one more row, of no class
    torch.testing.assert_close(found.predict(X), expected)
    torch.testing.assert_close(found.left_out.sum(1), torch.ones(len(y)).double())
    names = [name for name, _ in found.ranking]
    errors = [error for _, error in found.ranking]
    assert sorted(names) == sorted(FEW)
    assert errors == sorted(errors)


def test_the_same_seed_gives_the_same_model():
    X, y = straight()
    first, second = (search(X, y, "logistic", features=FEW, seed=3, progress=False) for _ in "ab")
    assert torch.equal(first.predict(X), second.predict(X))
    assert first.estimate == second.estimate


def test_ridge_and_features_given():
    X, y = straight()
    found = search(X, y, "logistic", features="rbf(0.5)", ridge=0.3, progress=False)
    (only,) = found.candidates
    assert (only.features.name, only.ridge) == ("rbf(0.5)", 0.3)
    assert found.weights.tolist() == [1.0]
    assert only.name == "rbf(0.5), ridge=0.3"


def test_without_stacking_there_is_one_member():
    X, y = straight()
    one = search(X, y, "logistic", features=FEW, stack=False, progress=False)
    ((share, member),) = one.members
    assert share == 1.0
    assert member is one.best
    own = log_loss(one.left_out, y).mean()
    assert one.estimate.error >= own - 1e-12  # choosing is paid for
    assert one.estimate.optimism >= 0


def test_the_walk_ends_at_a_ridge_with_worse_neighbours():
    X, y = straight()
    found = search(X, y, "logistic", features="linear", progress=False)
    walked = sorted(found.candidates, key=lambda one: -one.ridge)
    ridges = np.array([one.ridge for one in walked])
    errors = np.array([one.error for one in walked])
    place = int(errors.argmin())
    assert 0 < place < len(ridges) - 1
    np.testing.assert_allclose(ridges[:-1] / ridges[1:], 10**0.5)


def interrupting(monkeypatch, after):
    """Let training be interrupted after some fits."""
    real, calls = module.fit, []

    def fit(*args, **options):
        calls.append(1)
        if len(calls) > after:
            raise KeyboardInterrupt
        return real(*args, **options)

    monkeypatch.setattr(module, "fit", fit)


def test_an_interrupted_search_keeps_what_it_has(monkeypatch):
    X, y = straight()
    whole = search(X, y, "logistic", features=FEW, progress=False)
    assert not whole.interrupted
    count = len(whole.candidates) - 1
    interrupting(monkeypatch, count)
    found = search(X, y, "logistic", features=FEW, progress=False)
    assert found.interrupted
    assert [one.name for one in found.candidates] == [one.name for one in whole.candidates[:count]]
    assert np.isfinite(found.estimate.error)


def test_an_interruption_before_the_first_fit_is_raised(monkeypatch):
    X, y = straight()
    interrupting(monkeypatch, 0)
    with pytest.raises(KeyboardInterrupt):
        search(X, y, "logistic", features=FEW, progress=False)


def test_groups_raise_the_estimate_where_rows_of_a_group_are_alike():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(40), 4)
    X = rng.normal(size=(40, 6))[groups] + 0.1 * rng.normal(size=(160, 6))
    y = torch.tensor(rng.integers(0, 2, 40)[groups].astype(float))  # nothing to learn of new groups
    plain = search(X, y, "logistic", features=FEW, progress=False)
    grouped = search(X, y, "logistic", features=FEW, groups=torch.tensor(groups), progress=False)
    assert plain.estimate.error < 0.4
    assert grouped.estimate.error > np.log(2) - 0.05
    assert len(grouped.losses) == 160


def test_weights_count_as_copies():
    X, y = straight(60)
    weights = 1.0 + torch.arange(60) % 2
    removed = torch.ones(60).double()
    copies = np.repeat(np.arange(60), weights.long().numpy())
    options = {"features": "linear", "ridge": 1.0, "progress": False}
    once = search(X, y, "logistic", weights=weights.double(), removed=removed, **options)
    twice = search(X[copies], y[copies], "logistic", **options)
    torch.testing.assert_close(once.predict(X), twice.predict(X), atol=1e-4, rtol=0)
    assert once.estimate.error == pytest.approx(twice.estimate.error, rel=1e-3)


def test_the_ranking_takes_some_of_many_rows(monkeypatch):
    monkeypatch.setattr(ranking, "RANKED", 50)
    X, y = straight()
    found = search(X, y, "logistic", features=FEW, progress=False)
    assert found.best.rows.n == 100
    assert len(found.losses) == 100


def test_no_probability_is_surer_than_the_rows_allow():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    y = (X[:, 0] > 0).double()
    X[:, 0] += 4 * (2 * y - 1)  # no row is ever wrong
    found = search(X, y, "logistic", features="linear", progress=False)
    assert float(found.left_out.max()) <= 1 - 0.5 / 61 + 1e-12
    assert float(found.predict(100 * X).max()) <= 1 - 0.5 / 61 + 1e-12
    assert found.estimate.stderr > 0.5 / 60  # a mistake that was not seen counts


def test_many_rows_are_scouted_first(monkeypatch):
    X, y = products(400)
    monkeypatch.setattr(module, "SCOUTED", 100)
    sizes, real = [], module.fit

    def fit(rows, *args, **options):
        sizes.append(rows.n)
        return real(rows, *args, **options)

    monkeypatch.setattr(module, "fit", fit)
    found = search(X, y, "logistic", features=FEW, progress=False)
    names = {one.features.name for one in found.candidates}
    assert "linear" in names  # always fitted, although it cannot see products
    assert set(sizes) == {100, 400}
    assert sizes.count(400) == len(found.candidates)
    assert all(one.rows.n == 400 for one in found.candidates)
    fresh, labels = products(3000, seed=7)
    losses = log_loss(found.predict(fresh), labels)
    assert abs(found.estimate.error - losses.mean()) < 3 * found.estimate.stderr


def test_class_weights_make_no_rows_and_copies_do():
    X, y = torch.zeros(4, 1), torch.tensor([0.0, 1.0, 0.0, 1.0])
    own, copies = torch.tensor([3.0, 1.0, 3.0, 1.0]), torch.tensor([1.0, 2.0, 1.0, 0.5])
    weighed = dd.Rows(X, y, weights=own * copies, removed=own * copies.clamp_max(1))
    assert row_count(weighed) == 5  # the row of weight ½ is still a row
    assert row_count(dd.Rows(X, y, weights=own)) == 4
    assert row_count(dd.Rows(X, y, groups=torch.tensor([0, 0, 1, 1]))) == 2
