"""Shared fixtures of the tests of tables."""

import pytest

from decoupled_descent.app.tables import pieces


@pytest.fixture
def small_pieces(monkeypatch):
    """Every table is large, and pieces have a few rows."""
    monkeypatch.setattr(pieces, "LARGE", 0)
    monkeypatch.setattr(pieces, "PIECE", 500)
    monkeypatch.setattr(pieces, "TOGETHER", 7)
