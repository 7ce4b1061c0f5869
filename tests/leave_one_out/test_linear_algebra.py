"""Rows in pieces, and Cholesky factors of matrices that may not have one."""

import math

import pytest
import torch

from decoupled_descent.leave_one_out import linear_algebra
from decoupled_descent.leave_one_out.linear_algebra import cholesky, pieces
from decoupled_descent.rows.blocks import Rows
from tests.problems import normal

N = 12


def test_pieces_are_short_and_in_order(monkeypatch):
    monkeypatch.setattr(linear_algebra, "CHUNK", 5)
    X = normal(N, 3, seed=1)
    parts = list(pieces(Rows(X)))
    assert [len(part) for _, part in parts] == [5, 5, 2]
    for span, part in parts:
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
