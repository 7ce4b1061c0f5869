"""Shared fixtures of the tests of tables."""

import pytest

from decoupled_descent.app.files import limits, text_file


@pytest.fixture
def small_batches(monkeypatch):
    """Every table is large, and batches have a few rows."""
    monkeypatch.setattr(limits, "LARGE", 0)
    monkeypatch.setattr(limits, "BATCH_BYTES", 500)
    monkeypatch.setattr(text_file, "ROWS", 7)
