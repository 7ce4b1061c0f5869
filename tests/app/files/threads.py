"""A group of processes that read a table, as threads of one process."""

import threading
from concurrent.futures import ThreadPoolExecutor

from decoupled_descent.app.files.process_group import ProcessGroup


class ThreadGroup(ProcessGroup):
    """Threads that exchange data through a list."""

    def __init__(self, rank, size, slots, barrier):
        super().__init__(rank, size)
        self.slots, self.barrier, self.exchanges = slots, barrier, 0

    def all_gather_bytes(self, content):
        """Return the content that each thread passes, by rank."""
        self.slots[self.rank] = content
        self.barrier.wait(20)
        contents = list(self.slots)
        self.barrier.wait(20)
        self.exchanges += 1
        return contents


def in_threads(size, work):
    """Call ``work(group)`` in ``size`` threads; return the results or errors by rank."""
    slots, barrier = [b""] * size, threading.Barrier(size)

    def guarded(rank):
        try:
            return work(ThreadGroup(rank, size, slots, barrier))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(guarded, range(size)))
