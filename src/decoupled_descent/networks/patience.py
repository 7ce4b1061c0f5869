"""When a path has found its best step: patience that does not end on a plateau at the start."""

from __future__ import annotations

from decoupled_descent.training.callbacks import Step, StopReason
from decoupled_descent.training.stopping import Counting

#: Steps in a row without a lower error that end a path, and those on a plateau at the start: while
#: no error was below the first share of that of the start, and the network does not fit its own
#: rows with less than the second share of the lowest error. On 50 problems with and without signal,
#: the lowest error so reached is 0.0005 above that of all 60 steps on average, after 23 steps; with
#: a patience of 6 throughout, 0.042 above it, after 13.
USUAL, PLATEAU = 6, 20
LEARNED, OVERFITTED = 0.8, 0.5


class Patience(Counting):
    """A callback that ends a path some steps after its lowest error.

    At some saddles the error does not fall, or rises, for twenty steps. A network that has neither
    lowered its error nor fitted its own rows has not begun to learn.
    """

    def __call__(self, step: Step) -> StopReason | None:
        """Process one iterate; index 0 starts a new run."""
        if step.index == 0:
            self._first = step.train_error
        if step.index == 0 or step.train_error < self._lowest:
            self._lowest, self._failures = step.train_error, 0
            return None
        self._failures += 1
        learned = self._lowest < LEARNED * self._first
        overfitted = step.info.notes["fitted"] < OVERFITTED * self._lowest
        ended = self._failures >= (USUAL if learned or overfitted else PLATEAU)
        return StopReason.RISING if ended else None
