"""The present iterate of a loop with :class:`Decoupling`, as a run of decoupled descent."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.evaluation.outputs import Labels
from decoupled_descent.objective import Objective
from decoupled_descent.objective.kinks import KinkWarning
from decoupled_descent.objective.losses import RowLoss
from decoupled_descent.quiet import ignoring
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.training.callbacks import Step, StopReason
from decoupled_descent.training.loop import History
from decoupled_descent.training.run import Run

if TYPE_CHECKING:
    from decoupled_descent.training.decoupling import Decoupling


def rows_of(decoupling: Decoupling, X: Tensor, y: Tensor) -> Rows:
    """All rows of a loop, in the paper's scaling: noise of variance 1/d."""
    if len(X) != decoupling.n or len(y) != decoupling.n:
        raise ValueError(
            f"X has {len(X)} rows and y {len(y)}, but Decoupling was made with n={decoupling.n}; "
            "give all rows, in the order of their numbers"
        )
    features = X.detach().flatten(1).double()
    return Rows(features / math.sqrt(decoupling.variance * features.shape[1]), y)


def as_run(decoupling: Decoupling, X: Tensor, y: Tensor) -> Run:
    r"""Evaluate all rows at their corrected pre-activations, in double precision.

    With noise of variance v in x, the rows are :math:`x/\sqrt{v d}` and θ is
    :math:`\sqrt{v d}\,W`, so that pre-activations stay as they are.
    """
    rows, memory = rows_of(decoupling, X, y), decoupling.state_dict()["memory"]
    model = copy.deepcopy(decoupling.model).double()
    with torch.no_grad():
        flat = model(X[:2].to(decoupling.weight.device).double()).ndim == 1
    objective = Objective.of_model(model, _row_losses(decoupling.criterion, flat))
    algorithm = DecoupledDescent(lr=1.0, reduction="mean")  # rates do not matter any more
    with ignoring(KinkWarning):  # the loop has warned of them
        bound = algorithm.bind(rows, objective)
    theta = decoupling.weight.detach().double()
    theta = theta * math.sqrt(decoupling.variance * theta.shape[1])
    state = algorithm.start(rows, bound, theta)
    state = state._replace(step=decoupling.steps)
    if memory:
        state = state._replace(memory=memory[0].double())
    with torch.no_grad():
        info = algorithm.evaluate(state, theta @ rows.X.T, rows, bound)
    step = Step(0, info.train_error, info.train_error_stderr, None, state, info)
    history = History([step.train_error], [step.train_error_stderr])
    labels = Labels(rows.y, OutputScale.of(decoupling.criterion, rows.y))
    reason = StopReason.STEPS if math.isfinite(step.train_error) else StopReason.DIVERGED
    message = f"after {decoupling.steps} steps of a loop"
    return Run(algorithm, bound, history, step, step, reason, message, labels=labels)


def _row_losses(criterion: Any, flat: bool) -> RowLoss:
    """The loss of each row by a criterion that is a mean; ``flat`` outputs have the shape (n,)."""

    def losses(outputs: Tensor, y: Tensor) -> Tensor:
        outputs = outputs.squeeze(1) if flat and outputs.ndim == 2 else outputs
        one = lambda u, label: criterion(u.unsqueeze(0), label.unsqueeze(0))  # noqa: E731
        result: Tensor = torch.vmap(one)(outputs, y)
        return result

    return losses
