r"""Online early stopping on the train error (section "Natural Algorithmic Consequences")."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from decoupled_descent.checks import whole_number
from decoupled_descent.training.callbacks import Step, StopReason

#: START is the number of updates before failures are counted, PATIENCE the number of failures in a
#: row that end a run. They were chosen on 45 runs of XOR (signal-to-noise ratios 3 to 6, rates 0.02
#: to 0.1), each with tolerances 0 and 0.001. With START = 100 and PATIENCE = 50, all 90 runs leave
#: the saddle near the start. With START = 0 and PATIENCE = 50, 6 of the 90 stop at the saddle; with
#: the paper's START = 0 and PATIENCE = 1, 36 do.
START, PATIENCE = 100, 50


class Counting:
    """What rules that count failures remember, for checkpoints."""

    _first, _lowest, _failures = math.inf, math.inf, 0

    def state_dict(self) -> dict[str, float]:
        """The state for a checkpoint."""
        return {"first": self._first, "lowest": self._lowest, "failures": self._failures}

    def load_state_dict(self, state: Mapping[str, float]) -> None:
        """Continue from what :meth:`state_dict` returned."""
        self._first, self._lowest = state["first"], state["lowest"]
        self._failures = int(state["failures"])


@dataclass
class EarlyStopping(Counting):
    r"""Stop when the train error, which is the test error in the limit, no longer falls.

    With E_t the train error, an update counts as an improvement if it lowers the error by more than
    the tolerance:

    .. math:: E_{t+1} - E_t < -\varepsilon \quad\text{or (relative)}\quad
       E_{t+1} - E_t < -\varepsilon\,|E_t| ,

    for positive errors the paper's log E_{t+1} − log E_t < log(1 − ε). So at ε = 0 the error never
    rises up to the stop. (The paper's text has wrong signs in both inequalities; these are the ones
    that its conclusion needs.) That is ``patience=1, start=0``, which stops at the first saddle:
    from a random start the error may stay the same, or rise, until the signal is found.

    By default, with neither patience nor ``start`` given, training goes on for 100 updates and then
    stops when 50 in a row have not lowered the error by more than ε in all. With patience or
    ``start``, E_t is the error of the last improvement, and ``patience`` updates in a row must fail
    to improve on it. If the error after ``start`` updates is larger than at the beginning,
    improvements are counted from that error.

    ``run.best_theta`` and ``run.best_head`` are those of the lowest error of the run.

    Args:
        tolerance: ε.
        relative: Whether ε is relative to the error.
        patience: The number of updates in a row without improvement that ends training; by default
            50, or 1 where ``start`` is given.
        start: The number of updates before failures are counted; by default 100, or 0 where
            ``patience`` is given.
        standard_errors: The tolerance is at least this many standard errors of the train error.
            With patience, a value of 0.01 ends runs whose progress is too small to measure.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=100, snr=8.0).sample(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> stopping = dd.EarlyStopping(tolerance=1e-3)
        >>> run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 500, callbacks=stopping)
        >>> str(run.stop_reason), len(run.train_error) < 250
        ('converged', True)
    """

    tolerance: float = 0.0
    relative: bool = False
    patience: int | None = None
    start: int | None = None
    standard_errors: float = 0.0

    def __post_init__(self) -> None:
        """Check the options."""
        limit = 1.0 if self.relative else math.inf
        if not 0 <= self.tolerance < limit:
            raise ValueError(
                f"tolerance={self.tolerance!r} must be at least 0"
                + (" and below 1, being relative" if self.relative else " and finite")
            )
        if not 0 <= self.standard_errors < math.inf:
            raise ValueError(
                f"standard_errors={self.standard_errors!r} must be at least 0 and finite"
            )
        for name, least in (("patience", 1), ("start", 0)):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name), least)

    def __call__(self, step: Step) -> StopReason | None:
        """Process one iterate; index 0 starts a new run."""
        error = step.train_error
        if step.index == 0:
            self._first = error
        worse = step.index == self._first_counted() and error > self._first
        if step.index == 0 or worse or error < self._target(step):
            self._lowest, self._failures = error, 0
            return None
        self._failures += step.index > self._first_counted()
        if self._failures < self._failures_to_stop():
            return None
        return StopReason.RISING if error > self._lowest else StopReason.CONVERGED

    def _first_counted(self) -> int:
        """The number of updates after which failures are counted."""
        if self.start is not None:
            return self.start
        return START if self.patience is None else 0

    def _failures_to_stop(self) -> int:
        """The number of failures in a row that ends the run."""
        if self.patience is not None:
            return self.patience
        return PATIENCE if self.start is None else 1

    def _target(self, step: Step) -> float:
        """The error an update must stay below to count as an improvement."""
        least = self.tolerance * (abs(self._lowest) if self.relative else 1.0)
        if self.standard_errors > 0 and math.isfinite(step.train_error_stderr):
            least = max(least, self.standard_errors * step.train_error_stderr)
        return self._lowest - least
