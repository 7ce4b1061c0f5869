"""Memory that was freed goes back to the system before large matrices are made."""

from pathlib import Path

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.rows import room


def test_room_is_made_for_large_matrices_only(monkeypatch):
    made = []
    monkeypatch.setattr(room, "_trim", lambda: made.append)
    for size in (room.ROOM - 1, room.ROOM):
        room.make_room(size)
    assert made == [0]
    monkeypatch.setattr(room, "_trim", lambda: None)  # systems without such a function
    room.make_room(room.ROOM)


def test_room_is_made_while_a_large_matrix_is_read(monkeypatch):
    made = []
    monkeypatch.setattr(room, "_trim", lambda: made.append)
    monkeypatch.setattr(room, "PASSED", room.ROOM)
    rows = dd.Rows(torch.zeros(1000, 3000), torch.zeros(1000))  # 24 MB in float64
    assert sum(len(part) for _, part in rows.pieces(100)) == 1000
    assert len(made) == 2  # after 400 and after 800 rows
    few = dd.Rows(torch.zeros(300, 3000), torch.zeros(300))
    assert sum(len(part) for _, part in few.pieces(100)) == 300
    assert len(made) == 2


@pytest.mark.skipif(room._trim() is None, reason="needs glibc")
def test_freed_memory_goes_back_to_the_system():
    """Vectors between others that stay: the library keeps their memory, which is no room."""

    def resident():
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    vectors = [torch.ones(2**12) for _ in range(4000)]  # 16 KB each
    kept = vectors[::2]
    del vectors
    before = resident()
    room.make_room(room.ROOM)
    assert before - resident() > 16 * 2**20
    assert len(kept) == 2000
