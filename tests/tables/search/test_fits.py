"""What a search finds: members, their mixture, and how sure it can be."""

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.tables.search.fits import row_count
from decoupled_descent.tables.search.search import search_models
from tests.tables.search.problems import evaluated
from tests.tables.search.test_search import FEW, predicted, several


def test_members_are_mixed_by_their_weights():
    X, y = several()
    result = search_models(X, y, "cross_entropy", outputs=3, features=FEW, progress=False)
    assert float(result.weights.sum()) == pytest.approx(1)
    assert float(result.weights.min()) >= 1 / (len(result.fits) * (len(y) + 1))
    shares = [share for share, _ in result.members]
    assert shares == sorted(shares, reverse=True)
    expected = sum(
        share
        * torch.softmax(
            one.features.transform(X) @ one.run.state.theta.T + one.run.head[0].bias.detach(), 1
        )
        for share, one in result.members
    )
    expected = (len(y) * expected + 1 / 3) / (len(y) + 1)  # one more row, of no class
    torch.testing.assert_close(predicted(result, X), expected)
    torch.testing.assert_close(result.left_out.sum(1), torch.ones(len(y)).double())
    names = [name for name, _ in result.ranking]
    errors = [error for _, error in result.ranking]
    assert sorted(names) == sorted(FEW)
    assert errors == sorted(errors)


def test_no_probability_is_surer_than_the_rows_allow():
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(60, 3, generator=generator, dtype=torch.float64)
    y = (X[:, 0] > 0).double()
    X[:, 0] += 4 * (2 * y - 1)  # no row is ever wrong
    result = search_models(X, y, "logistic", features="linear", progress=False)
    assert float(result.left_out.max()) <= 1 - 0.5 / 61 + 1e-12
    assert float(predicted(result, 100 * X).max()) <= 1 - 0.5 / 61 + 1e-12
    assert evaluated(result).stderr > 0.5 / 60  # a mistake that was not seen counts


def test_rows_count_by_their_weights():
    X, y = torch.zeros(4, 1), torch.tensor([0.0, 1.0, 0.0, 1.0])
    count = lambda **given: row_count(dd.Rows(X, y, **given))  # noqa: E731
    assert count() == count(weights=torch.full((4,), 3.0)) == 4
    assert count(weights=torch.tensor([1.0, 1.0, 1.0, 1e-9])) == pytest.approx(3)
    assert count(weights=torch.tensor([3.0, 1.0, 3.0, 1.0])) == pytest.approx(64 / 20)
    pairs = torch.tensor([0, 0, 1, 1])
    assert count(groups=pairs) == 2
    copies = dd.Rows(X[[0, 0, 0, 1]], y[[0, 0, 0, 1]], groups=torch.tensor([0, 0, 0, 1]))
    assert row_count(copies) == pytest.approx(
        row_count(dd.Rows(X[:2], y[:2], weights=torch.tensor([3.0, 1.0])))
    )
