"""The run that ``fit`` returns."""

from __future__ import annotations

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn

from decoupled_descent.descent.common import Algorithm
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis, diagnose_run
from decoupled_descent.evaluation.estimate import Estimate, Metric
from decoupled_descent.evaluation.estimation import BLOCKS
from decoupled_descent.evaluation.evaluation import Evaluation
from decoupled_descent.evaluation.outputs import Labels
from decoupled_descent.evaluation.reweighting import reweighted, row_weights_of
from decoupled_descent.objective import BoundObjective, Objective
from decoupled_descent.plotting.runs import plot_curve
from decoupled_descent.rows.sources import as_source, read_size
from decoupled_descent.rows.tensors import as_floats, check_finite
from decoupled_descent.training.callbacks import Step, StopReason
from decoupled_descent.training.loop import (
    History,
    Trainee,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class AnyRun:
    """What all runs have whose rows were left out, however they were; at the best step."""

    trial: ClassVar[int] = 100  # a run of fewer iterates: nobody expects that it has arrived

    if TYPE_CHECKING:
        evaluation: Any
        stop_reason: Any
        train_error: Any
        train_error_stderr: Any

    @property
    def error(self) -> float:
        """The estimated error on new rows."""
        return float(self.evaluation.error)

    @property
    def stderr(self) -> float:
        """Its standard error, over rows or groups."""
        return float(self.evaluation.stderr)

    def estimate(self, metric: Metric, blocks: int = BLOCKS) -> Estimate:
        """Estimate a metric on new rows; see :meth:`Evaluation.estimate`.

        Args:
            metric: "accuracy", "auc", "brier", "log_loss", "mse", "rmse", "r2", …, or a function of
                labels and predictions, such as those of ``sklearn.metrics``.
            blocks: How often a metric that is any function may be computed.

        Returns:
            The value, its standard error, and whether to trust them.
        """
        result: Estimate = self.evaluation.estimate(metric, blocks)
        return result

    @property
    def _estimates(self) -> Any:
        """The estimated error of each iterate."""
        return self.train_error

    @property
    def still_falling(self) -> float:
        """The fall of the error in the last tenth of the steps, in standard errors.

        0 for a run that ended for another reason than that all steps were made, and for a trial.
        """
        errors, count = self._estimates, len(self._estimates)
        if self.stop_reason is not StopReason.STEPS or count < self.trial:
            return 0.0
        stderr = max(float(self.train_error_stderr[-1]), 1e-300)
        return max(0.0, float(errors[-1 - count // 10] - errors[-1]) / stderr)

    @property
    def diverged(self) -> bool:
        """Whether training ended because its error was no longer finite."""
        return self.stop_reason is StopReason.DIVERGED

    @property
    def notes(self) -> dict[str, float]:
        """Numbers that the training measured, by name, for the checks of the evaluation."""
        return {
            "diverged": float(self.diverged),
            "interrupted": float(self.stop_reason is StopReason.INTERRUPTED),
            "still_falling": self.still_falling,
        }


@dataclass(frozen=True)
class Run(AnyRun):
    """The result of :func:`fit`.

    Attributes:
        algorithm: How it was trained.
        bound: What was minimised, with its derivatives.
        history: The errors, step by step.
        last: The last iterate, as callbacks saw it: its state, losses and pre-activations.
        best: The iterate with the lowest train error.
        stop_reason: Why training ended.
        message: The same in a sentence.
        alarm: A warning that the error is not finite or has exploded; None if neither is so.
        labels: The labels of the rows, for :meth:`estimate`; None if they are in several processes.
        metadata: What it was made with: versions, threads, block size, device, dtype. The same call
            with all of these the same gives the same bits.
    """

    algorithm: Algorithm
    bound: BoundObjective
    history: History
    last: Step
    best: Step
    stop_reason: StopReason
    message: str
    alarm: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    labels: Labels | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        """Summarise in one line."""
        last, stderr = self.train_error[-1], self.train_error_stderr[-1]
        test = "" if self.test_error is None else f", test error {self.test_error[-1]:.4g}"
        shown = f"{last:.4g} ± {stderr:.2g}"
        if self.history.fitted_error:
            estimate = self.history.train_error[-1]
            shown = f"{last:.4g}, estimated test error {estimate:.4g} ± {stderr:.2g}"
        return (
            f"Run({type(self.algorithm).__name__}, {len(self.train_error)} iterates, train error "
            f"{shown}{test}, best step {self.best_step}, {self.stop_reason})"
        )

    def _repr_html_(self) -> str:
        """Write the errors at the best step, and why training ended, as a table for notebooks."""
        best, error = self.best_step, self.best.train_error
        estimated = self.algorithm.estimates_test_error
        cells = {
            "algorithm": self.algorithm.brief,
            "best step": f"{best} of {len(self.train_error) - 1}",
            "train error at this step": f"{error:.4g} ± {self.best.train_error_stderr:.2g}, "
            + ("the estimated test error" if estimated else "not an estimate of the test error"),
        }
        if self.history.fitted_error:
            estimate = cells.pop("train error at this step").split(",")[0]
            cells["train error at this step"] = f"{self.train_error[best]:.4g}"
            cells["estimated test error at this step"] = estimate
        if self.test_error is not None:
            cells["test error at this step"] = f"{self.test_error[best]:.4g}"
        cells["ended"] = self.message
        left = 'style="text-align: left"'  # notebooks put cells to the right
        rows = (
            f"<tr><th {left}>{name}</th><td {left}>{html.escape(cell)}</td></tr>"
            for name, cell in cells.items()
        )
        return f"<table>{''.join(rows)}</table>"

    @property
    def objective(self) -> Objective:
        """What was minimised."""
        return self.bound.objective

    @property
    def train_error(self) -> Tensor:
        """(T,) mean loss; for decoupled descent the estimate of the test error.

        For ``GradientDescent(estimate=True)`` it is the error of the fitted rows, which is too low
        for new ones; :attr:`estimated_test_error` is the estimate.
        """
        errors = self.history.fitted_error or self.history.train_error
        return torch.tensor(errors, dtype=torch.float64, device="cpu")

    @property
    def train_error_stderr(self) -> Tensor:
        """(T,) standard error of the train error, or of the estimate beside it."""
        return torch.tensor(self.history.train_error_stderr, dtype=torch.float64, device="cpu")

    @property
    def estimated_test_error(self) -> Tensor:
        """(T,) the estimate of the test error, with standard error ``train_error_stderr``.

        For decoupled algorithms it is the train error.
        """
        if not self.algorithm.estimates_test_error:
            raise ValueError(
                f"{type(self.algorithm).__name__} does not estimate its test error; use "
                "GradientDescent(…, estimate=True) or a decoupled algorithm"
            )
        return torch.tensor(self.history.train_error, dtype=torch.float64, device="cpu")

    @property
    def test_error(self) -> Tensor | None:
        """(T,) mean loss on the test set, or None when there was none."""
        values = self.history.test_error
        return torch.tensor(values, dtype=torch.float64, device="cpu") if values else None

    @property
    def gap(self) -> Tensor | None:
        """(T,) train error minus test error, or None without a test set."""
        return None if self.test_error is None else self.train_error - self.test_error

    @property
    def _estimates(self) -> Any:
        return self.history.train_error

    @property
    def state(self) -> Any:
        """The algorithm's state at the last iterate; ``fit(…, state=run.state)`` continues."""
        return self.last.state

    @property
    def best_state(self) -> Any:
        """The algorithm's state at the best step."""
        return self.best.state

    @property
    def theta(self) -> Tensor:
        """θ at the last iterate, shape (L, d), laid out as ``nn.Linear.weight``."""
        return self.state.theta  # type: ignore[no-any-return]

    @property
    def head(self) -> nn.Module:
        """The trained head at the last iterate, a copy in θ's dtype."""
        return self.objective.module(self.state.head).to(self.state.theta)

    @property
    def best_step(self) -> int:
        """The iterate with the lowest train error among those that estimate the test error."""
        return self.best.index

    @property
    def best_theta(self) -> Tensor:
        """θ at the best step."""
        return self.best_state.theta  # type: ignore[no-any-return]

    @property
    def best_head(self) -> nn.Module:
        """The trained head at the best step, a copy in θ's dtype."""
        return self.objective.module(self.best_state.head).to(self.best_state.theta)

    def to_module(self, *, best: bool = False) -> nn.Module:
        """Return the trained model as one module of x, a copy.

        Args:
            best: Use the iterate with the lowest train error instead of the last one.

        Returns:
            The model of :meth:`Objective.of_model` with its trained weights; for a head alone,
            ``nn.Sequential`` of an ``nn.Linear`` without bias and the head.
        """
        state = self.best_state if best else self.state
        return self.objective.model(state.theta, state.head)

    @property
    def best_losses(self) -> Tensor:
        """Losses of the training rows at the best step, shape (n,)."""
        return self.best.info.losses

    @property
    def best_preactivations(self) -> Tensor:
        """Pre-activations behind ``best_losses``, (n, L): corrected ones for decoupled descent."""
        return self.best.info.preactivations

    @property
    def best_outputs(self) -> Tensor:
        """Outputs of the training rows as if they were new, behind ``best_losses``."""
        return self.algorithm.outputs(self.best_state, self.best_preactivations, self.bound)

    def predict(self, X: Any, *, best: bool = False) -> Tensor:
        """Evaluate the trained model on new rows.

        Args:
            X: Features, shape (m, d), scaled like the training data.
            best: Use the iterate with the lowest train error instead of the last one.

        Returns:
            The head's outputs, shape (m,) or (m, K): logits for the losses that take logits.
        """
        state = self.best_state if best else self.state
        outputs = []
        for features in _blocks(X, state.theta):
            if features.shape[1] != state.theta.shape[1]:
                raise ValueError(
                    f"X has {features.shape[1]} columns but the model was trained on "
                    f"{state.theta.shape[1]}"
                )
            with torch.no_grad():
                outputs.append(self.objective.outputs(features @ state.theta.T, state.head))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs)

    @property
    def has_evaluation(self) -> bool:
        """Whether the outputs of all rows as if they were new, and their labels, are here."""
        return self.algorithm.estimates_test_error and self.labels is not None

    @cached_property
    def evaluation(self) -> Evaluation:
        """How good the model of the best step is on new rows, and how sure that is.

        Its verdict is from what the run knows; :func:`diagnose` looks at the rows as well.
        """
        if not self.algorithm.estimates_test_error:
            raise ValueError(
                f"the outputs of {type(self.algorithm).__name__} for its training rows are no "
                "estimate for new rows; use a decoupled algorithm, or CrossFit"
            )
        if self.labels is None:
            raise ValueError(
                "this run has no labels, or only those of one of several processes; compute the "
                "metric from best_outputs"
            )
        outputs, pairs = self.best_outputs, float(self.best.info.pairs)
        losses, notes = self.row_losses(outputs), self.notes
        how = self.algorithm.how
        return self.labels.evaluation(outputs, losses, pairs=pairs, how=how, notes=notes)

    def row_losses(self, outputs: Tensor) -> Tensor:
        """The losses of outputs of the training rows, shape (n,)."""
        assert self.labels is not None
        return self.objective.loss.of(outputs, self.labels.y)

    def diagnose(self, X: Any, y: Any, **options: Any) -> Diagnosis:
        """Check whether the train error estimates the test error; see :func:`diagnose`."""
        return diagnose_run(X, y, self, **options)

    def under(self, weights: Any) -> Estimate:
        r"""Estimate the test error after a drift that is given by weights of the rows.

        .. math:: \frac{\sum_i w_i \ell_i}{\sum_i w_i}, \qquad
                  \text{stderr}^2 = \frac{\sum_i w_i^2 (\ell_i - \bar\ell)^2}{(\sum_i w_i)^2}

        with the losses ℓ of rows as if they were new, at the best step.

        Args:
            weights: How much more frequent each row is after the drift, w = p_after/p_before up to
                a factor, shape (n,); or these numbers by label, such as {0.0: 0.5, 1.0: 2.0}. For a
                drift to other shares of the labels they are the ratios of the shares.

        Returns:
            The value and its standard error, which grows as the weights become unequal: few rows
            then speak for all. If they are fewer than ten, there is no estimate.
        """
        if self.labels is None or not self.algorithm.estimates_test_error:
            raise ValueError(
                "under() needs a run of all rows in one process whose losses estimate the test "
                "error, such as that of DecoupledDescent"
            )
        own = row_weights_of(weights, self.labels.y)
        return reweighted(self.evaluation, own)

    def plot(self, title: str = "", theory: Any = None) -> Figure:
        """Draw the train error with its 95 % interval, the best step, and the test error if known.

        For ``GradientDescent(estimate=True)`` the interval is that of the estimate beside it.

        Args:
            title: The title of the figure.
            theory: What state evolution predicts: ``StateEvolution(…).run(…).test_error``.

        Returns:
            A figure; ``dd.plotting.save_figure`` writes it to a file.

        Example:
            >>> import decoupled_descent as dd
            >>> X, y = dd.mixtures.xor(dimension=100, snr=8.0).sample(200, seed=0)
            >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
            >>> run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), steps=20)
            >>> run.plot().axes[0].get_xlabel()
            'step'
        """
        return plot_curve(
            self.history.train_error,
            self.train_error_stderr,
            fitted=self.history.fitted_error or None,
            test=self.test_error,
            theory=theory,
            title=title or type(self.algorithm).__name__,
        )

    @classmethod
    def of(cls, trainee: Trainee, labels: Labels | None = None) -> Run:
        """The result of a run that has ended."""
        assert trainee.reason is not None
        ended = (trainee.reason, trainee.message, trainee.alarm, trainee.metadata, labels)
        parts = (trainee.algorithm, trainee.bound, trainee.history, trainee.last, trainee.best)
        return cls(*parts, *ended)


def _blocks(X: Any, like: Tensor) -> Iterator[Tensor]:
    """The rows to predict, checked; those that are not in memory come in blocks."""
    if (source := as_source(X)) is None:
        yield as_floats("X", X).to(like)
        return
    for part in source.to(like.dtype).parts(read_size(source.values, 8 * like.shape[1])):
        check_finite("X", part.X, part.span.start)
        yield part.X.to(like)
