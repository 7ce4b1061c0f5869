"""Processes that read a table together, as threads of one process."""

import threading
from concurrent.futures import ThreadPoolExecutor

from decoupled_descent.app.tables.shares import Share


class Told(Share):
    """Threads that tell each other things through a list."""

    def __init__(self, rank, size, slots, barrier):
        super().__init__(rank, size)
        self.slots, self.barrier, self.sums = slots, barrier, 0

    def all_gather(self, content):
        """Return what every thread passes, by rank."""
        self.slots[self.rank] = content
        self.barrier.wait(20)
        found = list(self.slots)
        self.barrier.wait(20)
        self.sums += 1
        return found


def in_company(size, work):
    """What ``work(share)`` returns, or the error that it raises, in so many threads."""
    slots, barrier = [b""] * size, threading.Barrier(size)

    def guarded(rank):
        try:
            return work(Told(rank, size, slots, barrier))
        except Exception as error:
            return error

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(guarded, range(size)))
