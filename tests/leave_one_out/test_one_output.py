"""S of one output in both forms, and the tools they share."""

import math

import numpy as np
import pytest
import torch

from decoupled_descent.leave_one_out import one_output
from decoupled_descent.leave_one_out.one_output import KernelPart, RidgePart, cholesky, pieces
from decoupled_descent.rows.blocks import Rows
from tests.problems import normal

N, RIDGE = 12, 0.7
ROWS = torch.tensor([7, 0, 3])


def as_rows(features):
    return Rows(features)


@pytest.mark.parametrize("intercept", [True, False])
def test_both_forms_against_the_definition(intercept):
    features, diagonal = normal(N, 5, seed=2), normal(N, seed=3).square() + 0.1
    ones = np.full((N, 1), float(intercept))
    phi = np.hstack([features.numpy(), ones])
    penalty = np.diag([RIDGE] * 5 + [0.0 if intercept else 1.0])
    wanted = phi @ np.linalg.inv(phi.T @ (diagonal.numpy()[:, None] * phi) + penalty) @ phi.T
    for part in (
        RidgePart(as_rows(features), diagonal, RIDGE, intercept),
        KernelPart(features @ features.T, diagonal, RIDGE, intercept),
    ):
        np.testing.assert_allclose(part.dense(), wanted, rtol=0, atol=1e-11)


def test_parts_agree_with_their_own_dense_matrix():
    features, diagonal = normal(N, 5, seed=2), normal(N, seed=3).square() + 0.1
    values = normal(N, 2, seed=4)
    for part in (
        RidgePart(as_rows(features), diagonal, RIDGE),
        KernelPart(features @ features.T, diagonal, RIDGE),
    ):
        S = part.dense()
        torch.testing.assert_close(part.diagonal(), S.diagonal())
        torch.testing.assert_close(part.columns(ROWS), S[:, ROWS])
        torch.testing.assert_close(part.times(values), S @ values)
        own = (S @ values)[[3, 1], [0, 1]]
        torch.testing.assert_close(part.at(values, torch.tensor([3, 1])), own)
        hat = S @ diagonal  # constants are fitted exactly, because the intercept is free
        torch.testing.assert_close(hat, torch.ones_like(hat))


def test_pieces_are_short_and_in_order(monkeypatch):
    monkeypatch.setattr(one_output, "CHUNK", 5)
    X = normal(N, 3, seed=1)
    found = list(pieces(as_rows(X)))
    assert [len(part) for _, part in found] == [5, 5, 2]
    for span, part in found:
        torch.testing.assert_close(part, X[span])


def test_cholesky_adds_jitter_only_where_it_must():
    matrix = normal(5, 5).T @ normal(5, 5)
    torch.testing.assert_close(cholesky(matrix), torch.linalg.cholesky(matrix))
    singular = torch.ones(4, 4, dtype=torch.float64)
    factor = cholesky(singular)
    torch.testing.assert_close(factor @ factor.T, singular, atol=1e-6, rtol=0)


def test_cholesky_of_what_is_not_finite_does_not_go_on_for_ever():
    for entry in (math.nan, math.inf):
        with pytest.raises(ValueError, match="too large to square; rescale"):
            cholesky(torch.full((2, 2), entry, dtype=torch.float64))
