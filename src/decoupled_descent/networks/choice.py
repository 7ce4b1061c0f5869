r"""Which way to leave rows out of a network: along the path where that is affordable, else folds.

A step of the path leave-one-out with n rows, all followed, K outputs, P trainable parameters, a
forward pass of F operations and A activations per row takes about

.. math:: n^2 (5 F + 100 A) + 3 n K F + \text{equations}

operations, where the equations are those of a system of nK or of P unknowns, whichever is less. The
decision is made by this number, so that it is the same everywhere; the time that is stated is
measured on a small part.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.modules import PathError
from decoupled_descent.networks.path.algorithm import DecoupledGaussNewton
from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.networks.path.training import prepared

#: Iterates of a path, which chooses its own step sizes: errors are lowest after 10 to 40.
STEPS = 60
#: The path is taken up to so many operations, so many minutes on one core, and gigabytes.
MOST_WORK, MINUTES, MOST_MEMORY = 4e12, 3.3, 4.0
#: Operations of a forward and a reverse pass with a direction, in units of a forward pass; and of
#: each activation, which costs memory traffic.
PASSES, TRAFFIC = 5, 100
#: Rows and copies with which the speed is measured.
TRIED_ROWS, TRIED_COPIES = 256, 8


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes:
        path: The algorithm, or None for stacked folds.
        reason: Why, in a sentence.
        seconds: The expected time of a path; NaN if it was not measured.
    """

    path: DecoupledGaussNewton | None
    reason: str
    seconds: float = float("nan")

    def announced(self) -> str:
        """The reason, with the expected time if it is known."""
        if math.isnan(self.seconds):
            return self.reason
        return f"{self.reason} Expected time: about {_duration(self.seconds)}."


def choose(
    X: Any, y: Any, model: nn.Module, loss: Any, weights: Any, groups: Any, steps: int = STEPS
) -> Choice:
    """Choose between the path leave-one-out and stacked folds.

    Args:
        X: The rows.
        y: Their labels.
        model: The network.
        loss: The loss.
        weights: The weight of each row.
        groups: Rows that belong together.
        steps: How many iterates the path would have.

    Returns:
        The choice.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
        >>> choose(torch.randn(50, 3), torch.ones(50), model, "squared", None, None).reason
        'Chosen: leave-one-out along the path, for 50 rows and 11 parameters are few.'
    """
    algorithm = DecoupledGaussNewton()
    try:
        rows, network = prepared(X, y, model, loss, weights, groups)
    except PathError as error:
        reason = str(error).partition(":")[0]
        return Choice(None, f"Chosen: stacked folds, because {reason}.")
    count = network.outputs(network.start, rows.X[:2]).shape[1]
    followed = int(rows.groups.max()) + 1
    sizes = f"{rows.n} rows and {network.size} parameters"
    memory = algorithm.memory_for(rows.n * count, followed, network)
    if memory > MOST_MEMORY:
        return Choice(
            None,
            f"Chosen: stacked folds, because leave-one-out along the path needs {memory:.2g} GB "
            f"for {sizes}.",
        )
    work = steps * work_of_step(network, rows, followed, count)
    if work > MOST_WORK:
        minutes = work / MOST_WORK * MINUTES
        return Choice(
            None,
            "Chosen: stacked folds, because leave-one-out along the path takes about "
            f"{minutes:.2g} minutes of a core for {sizes}.",
        )
    reason = f"Chosen: leave-one-out along the path, for {sizes} are few."
    return Choice(algorithm, reason, work / measured_speed(network, rows))


def work_of_step(network: Network, rows: Examples, followed: int, count: int) -> float:
    """Operations of one step of the path leave-one-out."""
    n, size, system = rows.n, network.size, rows.n * count
    forward = operations(network, rows)
    passes = followed * n * _product(network, forward) + 3 * system * forward
    if size >= system:
        equations = 2 * system**2 * size + 2 * system**3
        return passes + equations + followed * (4 * system * size + 8 * system**2)
    return passes + 2 * system * size**2 + size**3 + followed * 4 * size**2 * (1 + count)


def operations(network: Network, rows: Examples) -> float:
    """Operations of a forward pass for one row; at least two for each parameter."""
    some = rows.X[:4]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.outputs(network.start, some)
    return float(max(counter.get_total_flops() / len(some), 2 * network.size))


def measured_speed(network: Network, rows: Examples) -> float:
    """Operations per second, from products with a few copies."""
    copies = network.start.repeat(TRIED_COPIES, 1)
    X, y = rows.X[:TRIED_ROWS], rows.y[:TRIED_ROWS]
    weights = torch.ones(TRIED_COPIES, len(X)).to(copies)
    work = TRIED_COPIES * len(X) * _product(network, operations(network, rows))
    times = []
    with torch.no_grad(), network.differentiable():
        for _ in range(3):  # the first is slow
            start = time.perf_counter()
            network.residuals(copies, X, y, weights, network.start)
            times.append(time.perf_counter() - start)
    return float(work / min(times))


def _product(network: Network, forward: float) -> float:
    """Operations for one row and one copy."""
    return PASSES * forward + TRAFFIC * network.activations


def _duration(seconds: float) -> str:
    """Seconds, or minutes where there are many."""
    return f"{max(1.0, seconds):.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
