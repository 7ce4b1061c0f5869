"""Memory that was freed goes back to the system before large matrices are made."""

from pathlib import Path

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.rows import freed_memory


def test_memory_is_returned_for_large_matrices_only(monkeypatch):
    made = []
    monkeypatch.setattr(freed_memory, "_trim", lambda: made.append)
    for size in (freed_memory.LARGE - 1, freed_memory.LARGE):
        freed_memory.return_freed_memory(size)
    assert made == [0]
    monkeypatch.setattr(freed_memory, "_trim", lambda: None)  # systems without such a function
    freed_memory.return_freed_memory(freed_memory.LARGE)


def test_memory_is_returned_while_a_large_matrix_is_read(monkeypatch):
    made = []
    monkeypatch.setattr(freed_memory, "_trim", lambda: made.append)
    monkeypatch.setattr(freed_memory, "READ", freed_memory.LARGE)
    rows = dd.Rows(torch.zeros(1000, 3000), torch.zeros(1000))  # 24 MB in float64
    assert sum(len(part) for _, part in rows.pieces(100)) == 1000
    assert len(made) == 2  # after 400 and after 800 rows
    few = dd.Rows(torch.zeros(300, 3000), torch.zeros(300))
    assert sum(len(part) for _, part in few.pieces(100)) == 300
    assert len(made) == 2


@pytest.mark.skipif(freed_memory._trim() is None, reason="needs glibc")
def test_freed_memory_goes_back_to_the_system():
    """Vectors between others that stay: the C library keeps their memory until it is asked."""

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    vectors = [torch.ones(2**12) for _ in range(4000)]  # 16 KB each
    kept = vectors[::2]
    del vectors
    before = resident()
    freed_memory.return_freed_memory(freed_memory.LARGE)
    assert before - resident() > 16 * 2**20
    assert len(kept) == 2000
