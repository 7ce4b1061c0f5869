"""Memory that was freed goes back to the system before large matrices are made."""

from pathlib import Path

import pytest
import torch

from decoupled_descent.rows import room


def test_room_is_made_for_large_matrices_only(monkeypatch):
    made = []
    monkeypatch.setattr(room, "_trim", lambda: made.append)
    for size in (room.ROOM - 1, room.ROOM):
        room.make_room(size)
    assert made == [0]
    monkeypatch.setattr(room, "_trim", lambda: None)  # systems without such a function
    room.make_room(room.ROOM)


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
