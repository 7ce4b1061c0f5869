r"""Sweeps: many configurations on the same rows, advanced together, chosen by their train error.

All configurations share X, so their parameters are stacked into one (Σ L_k, d) matrix and every
step makes two products with X for all of them; the rest of a step is row-wise and small.
"""

from __future__ import annotations

import copy
import html
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from decoupled_descent.checks import outside, whole_number
from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.info import DivergenceWarning
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis
from decoupled_descent.evaluation.comparison import (
    CorrectedError,
    PairedDifference,
    one_standard_error,
    paired_difference,
    winners_curse,
)
from decoupled_descent.objective import Objective
from decoupled_descent.plotting.runs import plot_sweep
from decoupled_descent.progress import progress_bar
from decoupled_descent.rows.blocks import Rows, as_rows
from decoupled_descent.rows.threads import threads_for
from decoupled_descent.training.callbacks import Callback, StopReason, as_callbacks
from decoupled_descent.training.checkpoint import (
    Checkpoint,
    as_checkpoint,
    continued,
    resumable,
)
from decoupled_descent.training.fit import labels_of
from decoupled_descent.training.loop import Trainee, check_test, train_together
from decoupled_descent.training.run import Run
from decoupled_descent.training.sweeps.configurations import Configuration, combine

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Halving:
    r"""Successive halving that stops only runs that are clearly worse.

    At each rung the runs are ranked by their current train error. The better half continues, and so
    do the runs of the other half that are within z standard errors of the leader (paired, on the
    same rows). The others are stopped. Gradient descent beside corrected runs is not ranked.

    Args:
        rungs: The steps at which runs are stopped; by default T/8, T/4 and T/2; none for ``()``.
        z: How many standard errors make a run clearly worse.
    """

    rungs: tuple[int, ...] | None = None
    z: float = 2.0

    def cutter(self, steps: int) -> Callable[[int, list[Trainee]], None]:
        """Return what ``train_together`` calls after each step."""
        rungs = (steps // 8, steps // 4, steps // 2) if self.rungs is None else self.rungs

        def cut(index: int, going: list[Trainee]) -> None:
            if index not in rungs or index == 0:
                return
            compared = [going[k] for k in comparable([trainee.algorithm for trainee in going])]
            ranked = sorted(compared, key=lambda trainee: trainee.history.train_error[-1])
            for trainee in ranked[(len(ranked) + 1) // 2 :]:
                behind = paired_difference(trainee.last.info.losses, ranked[0].last.info.losses)
                if behind.mean > self.z * behind.stderr:
                    trainee.stop(
                        StopReason.PRUNED,
                        f"pruned at step {index}: {behind.mean:.3g} ± {behind.stderr:.2g} behind "
                        "the leader",
                    )

        return cut


def comparable(algorithms: Sequence[Algorithm]) -> list[int]:
    """Return which runs can be chosen: those whose train error estimates the test error, if any.

    The train error of gradient descent is too low, and would win against any unbiased one.
    """
    unbiased = [k for k, algorithm in enumerate(algorithms) if algorithm.estimates_test_error]
    return unbiased or list(range(len(algorithms)))


@dataclass(frozen=True)
class Sweep:
    """The result of :func:`sweep`.

    Gradient descent beside corrected algorithms is trained but never chosen: its train error does
    not estimate the test error.
    """

    names: tuple[str, ...]  #: of the configurations: how they differ from each other
    runs: tuple[Run, ...]  #: one per configuration, in the same order

    def __repr__(self) -> str:
        """Name the winner."""
        error, stderr, _ = self.corrected_error
        return (
            f"Sweep({len(self.runs)} configurations, best {self.names[self.best_index]!r}, "
            f"estimated test error {error:.4g} ± {stderr:.2g})"
        )

    def _repr_html_(self) -> str:
        """Write the winner, and the table of all configurations, for notebooks."""
        table = self.table.to_html(index=False, float_format="{:.4g}".format)
        scrolled = f'<div style="overflow-x: auto">{table}</div>'
        return f"<p>{html.escape(repr(self))}</p>{scrolled}"

    @property
    def losses(self) -> Tensor:
        """(K, n) row losses of every run at its best step."""
        return torch.stack([run.best_losses for run in self.runs])

    @property
    def best_index(self) -> int:
        """The configuration with the lowest train error at its best step."""
        compared = self._compared
        return compared[int(self.losses[compared].double().mean(1).argmin())]

    @property
    def _compared(self) -> list[int]:
        return comparable([run.algorithm for run in self.runs])

    @property
    def best(self) -> Run:
        """The winning run."""
        return self.runs[self.best_index]

    @property
    def corrected_error(self) -> CorrectedError:
        """The winner's error, corrected for the choice among configurations (winner's curse)."""
        return winners_curse(self.losses[self._compared])

    def diagnose(
        self, X: Any, y: Any, *, optimism: float | None = None, **options: Any
    ) -> Diagnosis:
        """Check the winner, and the choice among runs; see :func:`diagnose`."""
        if optimism is None and len(self.runs) > 1:
            optimism = self.corrected_error.optimism
        return self.best.diagnose(X, y, optimism=optimism, **options)

    def plot(self) -> Figure:
        """Draw all train errors over the steps, and the difference of each run from the winner.

        Returns:
            A figure with two panels. Whiskers are 95 % intervals of the *difference* from the
            winner on the same rows; a cross marks where a run was pruned or diverged.

        Example:
            >>> import decoupled_descent as dd
            >>> X, y = dd.mixtures.xor(dimension=100, snr=8.0).sample(200, seed=0)
            >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
            >>> algorithms = [dd.DecoupledDescent(lr) for lr in (0.02, 0.05)]
            >>> len(dd.sweep(X, y, objective, algorithms, steps=20).plot().axes)
            2
        """
        return plot_sweep(self)

    def difference(self, index: int) -> PairedDifference:
        """How much worse a configuration is than the winner, row by row on the same rows."""
        losses = self.losses
        return paired_difference(losses[index], losses[self.best_index])

    def simplest(self, key: Callable[[Run], Any] | None = None) -> int:
        """Apply the one-standard-error rule.

        Args:
            key: Orders runs from simple to complex; by default, by width L and then by the size of
                the head.

        Returns:
            The index of the simplest configuration within one standard error of the best.
        """

        def complexity(run: Run) -> tuple[int, int]:
            return len(run.theta), sum(value.numel() for value in run.state.head.values())

        compared = sorted(self._compared, key=lambda k: (key or complexity)(self.runs[k]))
        return compared[one_standard_error(self.losses[compared])]

    @property
    def records(self) -> list[dict[str, Any]]:
        """One dictionary per configuration: its options and its results."""
        rows = []
        for index, (name, run) in enumerate(zip(self.names, self.runs, strict=True)):
            behind = self.difference(index)
            step = run.best_step
            row: dict[str, Any] = {"name": name, "head": type(run.objective.head).__name__}
            row |= {"width": len(run.theta), **run.algorithm.settings}
            row |= {
                "train_error": float(run.train_error[step]),
                "stderr": float(run.train_error_stderr[step]),
                "behind_best": behind.mean,
                "behind_best_stderr": behind.stderr,
                "best_step": step,
                "steps": len(run.train_error),
                "stop_reason": str(run.stop_reason),
            }
            if run.test_error is not None:
                row["test_error"] = float(run.test_error[step])
            rows.append(row)
        return rows

    @property
    def table(self) -> Any:
        """The records as a pandas data frame, best first; what cannot be chosen comes last."""
        import pandas as pd

        table, compared = pd.DataFrame(self.records), set(self._compared)
        apart = [k not in compared for k in range(len(table))]
        ordered = table.assign(apart=apart).sort_values(["apart", "train_error"], ignore_index=True)
        return ordered.drop(columns="apart")


def sweep(
    X: Any,
    y: Any,
    objective: Objective | Sequence[Objective] | Mapping[str, Objective],
    algorithms: Algorithm | Sequence[Algorithm] | Mapping[str, Algorithm],
    steps: int = 200,
    theta: Tensor | Sequence[Tensor] | None = None,
    seed: int | Sequence[int] = 0,
    *,
    test: tuple[Any, Any] | None = None,
    callbacks: Callback | Sequence[Callback] = (),
    halving: Halving | None = None,
    n_jobs: int | None = None,
    progress: bool | None = None,
    checkpoint: str | Path | Checkpoint | None = None,
) -> Sweep:
    """Train every combination of objectives, algorithms and seeds on the same rows; find the best.

    Args:
        X: Features, shape (n, d), noise variance 1/d.
        y: Labels, n rows.
        objective: One or several (heads of different widths are fine), or a mapping from names.
        algorithms: One or several, or a mapping from names. Gradient descent beside corrected ones
            is trained, and never chosen.
        steps: T, iterates per run.
        theta: θ_1 for all, or one per objective; drawn from N(0, 1) with ``seed`` by default.
        seed: One or several seeds, each a separate configuration.
        test: Held-out rows whose error is recorded and used for nothing else.
        callbacks: Copied for every run.
        halving: Stops configurations that are clearly worse early.
        n_jobs: Splits the sweep into this many stacks, trained in parallel through joblib and
            whatever backend it is set to (Dask, Ray, processes); one stack by default.
        progress: Whether to draw a progress bar; by default, only on a terminal.
        checkpoint: A folder to save all runs in while they go on, as for :func:`fit`. The same call
            continues from there; finished runs are not trained again.

    Example:
        >>> import decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=100, snr=6.0).sample(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> dampings = {f"{d:g}": dd.DecoupledDescent(0.05, d, head_lr=0) for d in (1, 0.9, 0.8)}
        >>> result = dd.sweep(X, y, objective, dampings, steps=50)
        >>> result.names, len(result.best.train_error)
        (('1', '0.9', '0.8'), 50)
    """
    whole_number("steps", steps)
    rows, callbacks = as_rows(X, y), as_callbacks(callbacks)
    rows.require_one_process("sweep compares losses row by row")
    configurations, folder = combine(objective, algorithms, theta, seed), as_checkpoint(checkpoint)
    if n_jobs is None or n_jobs == 1 or len(configurations) == 1:
        runs = train_stack(configurations, rows, steps, test, callbacks, halving, progress, folder)
    else:
        if halving is not None:
            raise ValueError("halving compares all runs at every rung, so it needs n_jobs=None")
        count = len(configurations) if n_jobs < 0 else min(n_jobs, len(configurations))
        shares = [configurations[k::count] for k in range(count)]
        folders = [folder and folder.within(f"{k + 1} of {count}") for k in range(count)]
        from joblib import Parallel, delayed  # only here: the library needs it nowhere else

        parts = Parallel(n_jobs=n_jobs)(
            delayed(train_stack)(share, rows, steps, test, callbacks, None, False, where)
            for share, where in zip(shares, folders, strict=True)
        )
        runs = [parts[k % count][k // count] for k in range(len(configurations))]
    for configuration, run in zip(configurations, runs, strict=True):
        if (alarm := run.alarm) is not None:
            warnings.warn(f"{configuration.name}: {alarm}", DivergenceWarning, outside())
    return Sweep(tuple(c.name for c in configurations), tuple(runs))


def train_stack(
    configurations: Sequence[Configuration],
    rows: Rows,
    steps: int,
    test: tuple[Any, Any] | None,
    callbacks: Sequence[Callback],
    halving: Halving | None,
    progress: bool | None,
    checkpoint: Checkpoint | None = None,
) -> list[Run]:
    """Train one stack. Runs with the same objective, g and f are bound to the labels once."""
    bounds, by_key = [], {}
    for _, objective, algorithm, theta, _ in configurations:
        width = None if theta is None else len(theta)
        key = (id(objective), width, id(algorithm.g), id(algorithm.f), algorithm.uses_jacobian)
        if key not in by_key:
            by_key[key] = algorithm.bind(rows, objective, theta)
        bounds.append(by_key[key])
    with threads_for(rows.here * rows.d, sum(bound.width for bound in bounds)):
        trainees = []
        for (_, _, algorithm, theta, seed), bound in zip(configurations, bounds, strict=True):
            state = algorithm.init(rows, bound, theta, seed)
            trainees.append(Trainee(bound, algorithm, state, copy.deepcopy(callbacks)))
        held_out = check_test(test, rows, trainees)
        cut = None if halving is None else halving.cutter(steps)
        asked = {"configurations": configurations, "steps": steps, "halving": halving}
        asked |= {"rows": rows, "test": held_out, "callbacks": resumable(callbacks)}
        with (
            continued(checkpoint, asked, trainees, rows.processes) as save,
            progress_bar(steps, f"sweep of {len(trainees)}", progress) as advance,
        ):
            train_together(trainees, rows, steps, held_out, advance, cut, save)
    return [Run.of(trainee, labels_of(rows, trainee.bound)) for trainee in trainees]
