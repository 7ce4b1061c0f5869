"""Memory that was freed goes back to the system before large matrices are made."""

from pathlib import Path

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.rows import freed_memory

pytestmark = pytest.mark.skipif(
    freed_memory._trim() is None, reason="the C library keeps freed memory, and needs glibc"
)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def memory_returned_by(call):
    """Bytes that go back to the system, of 32 MB that were freed between vectors that stay."""
    vectors = [torch.ones(2**12) for _ in range(4000)]  # 16 KB each
    kept = vectors[::2]
    del vectors
    before = resident()
    call()
    returned = before - resident()
    assert len(kept) == 2000
    return returned


def test_freed_memory_goes_back_for_large_matrices_only():
    few = memory_returned_by(lambda: freed_memory.return_freed_memory(freed_memory.LARGE - 1))
    assert few < 2**20
    many = memory_returned_by(lambda: freed_memory.return_freed_memory(freed_memory.LARGE))
    assert many > 16 * 2**20


def test_freed_memory_goes_back_while_a_large_matrix_is_read(monkeypatch):
    monkeypatch.setattr(freed_memory, "READ", freed_memory.LARGE)
    few = dd.Rows(torch.zeros(300, 3000), torch.zeros(300))  # 7 MB in float64
    many = dd.Rows(torch.zeros(1000, 3000), torch.zeros(1000))
    assert memory_returned_by(lambda: sum(len(part) for _, part in few.pieces(100))) < 2**20
    returned = memory_returned_by(lambda: sum(len(part) for _, part in many.pieces(100)))
    assert returned > 16 * 2**20
