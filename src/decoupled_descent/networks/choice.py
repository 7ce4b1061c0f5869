r"""Which way to leave rows out of a network: along the path where that is affordable, else folds.

A step of the path leave-one-out with n rows of which m are followed, K outputs, P trainable
parameters, a forward pass of F operations and A activations per row takes about

.. math:: 1.7 m n (5 F + 100 A) + 3 n K F + \text{equations} + 10^9

operations, where the equations are those of a system of nK or of P unknowns, whichever is less, and
1.7 is for refinements. An epoch of stacked folds takes about 130 n F, and for each batch and tensor
of parameters as long as 1.5 · 10⁷ operations. Of three perceptrons with 400 rows, a convolutional
network and a block of attention, forecasts of a step were 0.8 to 1.9 times the measured time, and
those of an epoch 0.7 to 1.2 times.

The decision compares operations, so that it is the same everywhere, also when a run is continued.
The times that are stated follow from the measured speed of a product of matrices.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from decoupled_descent.leave_one_out.linear_algebra import product_speed
from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.modules import PathError
from decoupled_descent.networks.path.algorithm import DecoupledGaussNewton
from decoupled_descent.networks.path.derivatives import Network
from decoupled_descent.networks.path.training import prepared

#: Iterates of a path, which chooses its own step sizes: errors are lowest after 10 to 40. By its
#: patience it ends after about so many.
STEPS, TYPICAL = 60, 25
#: Stacked folds by default: epochs, and steps per epoch at least; batches are between these sizes.
EPOCHS, BATCHES, SMALLEST, LARGEST = 100, 32, 16, 256
#: The path is taken where it takes at most so many times as long as folds, and so many gigabytes:
#: every row is predicted by a model of all other rows, and its network is as good as that of folds.
MORE, MOST_MEMORY = 5, 4.0
#: Or so few operations, which are a second or two.
QUICK = 5e10
#: Operations of a forward and a reverse pass with a direction, in units of a forward pass; those of
#: each activation, which costs memory traffic; how much longer both take by ``torch.func``; how
#: often they are made for refinements; and what takes as long as Python's part of a step.
PASSES, TRAFFIC, UNUSUAL, REFINED, STEP = 5, 100, 6, 1.7, 1e9
#: Copies of stacked folds, their operations in units of a forward pass, and those that take as long
#: as the smallest batch, for each tensor of parameters.
COPIES, FOLD_PASSES, BATCH = 11, 12, 1.5e7


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes:
        path: The algorithm, or None for stacked folds.
        reason: Why, in a sentence, with the expected times of both.
    """

    path: DecoupledGaussNewton | None
    reason: str


def choose(
    X: Any, y: Any, model: nn.Module, loss: Any, weights: Any, groups: Any, steps: int | None = None
) -> Choice:
    """Choose between the path leave-one-out and stacked folds.

    Args:
        X: The rows.
        y: Their labels.
        model: The network.
        loss: The loss.
        weights: The weight of each row.
        groups: Rows that belong together.
        steps: The most iterates of a path, or epochs of folds; by default as many as they need.

    Returns:
        The choice.

    Example:
        >>> model = nn.Sequential(nn.Linear(3, 2), nn.Tanh(), nn.Linear(2, 1))
        >>> choose(torch.randn(50, 3), torch.ones(50), model, "squared", None, None).reason
        'Chosen: leave-one-out along the path. For 50 rows and 11 parameters it takes about ...'
    """
    algorithm = DecoupledGaussNewton()
    try:
        rows, network = prepared(X, y, model, loss, weights, groups)
    except PathError as error:
        reason = str(error).partition(":")[0]
        return Choice(None, f"Chosen: stacked folds, because {reason}.")
    count = network.outputs(network.start, rows.X[:2]).shape[1]
    followed = algorithm.number(int(rows.groups.max()) + 1)
    sizes = f"{rows.n} rows and {network.size} parameters"
    memory = algorithm.memory_for(rows.n * count, followed, network)
    if memory > MOST_MEMORY:
        return Choice(
            None,
            f"Chosen: stacked folds, because leave-one-out along the path needs {memory:.2g} GB "
            f"for {sizes}.",
        )
    path = min(TYPICAL, steps or TYPICAL) * work_of_step(network, rows, followed, count)
    folds = (steps or EPOCHS) * work_of_epoch(network, rows)
    speed = product_speed()
    path_time, fold_time = duration(path / speed), duration(folds / speed)
    if path > max(QUICK, MORE * folds):
        return Choice(
            None,
            f"Chosen: stacked folds. For {sizes} they take about {fold_time} on this machine, and "
            f"leave-one-out along the path about {path_time}, more than {MORE} times as long.",
        )
    return Choice(
        algorithm,
        f"Chosen: leave-one-out along the path. For {sizes} it takes about {path_time} on this "
        f"machine, and stacked folds about {fold_time}.",
    )


def work_of_epoch(network: Network, rows: Examples) -> float:
    """Operations that take as long as an epoch of stacked folds."""
    products = COPIES * FOLD_PASSES * rows.n * operations(network, rows)
    return products + -(-rows.n // batch_size(rows.n)) * BATCH * len(network.names)


def batch_size(n: int) -> int:
    """Rows of a batch of stacked folds by default."""
    return max(SMALLEST, min(LARGEST, n // BATCHES))


def work_of_step(network: Network, rows: Examples, followed: int, count: int) -> float:
    """Operations of one step of the path leave-one-out."""
    n, size, system = rows.n, network.size, rows.n * count
    forward = operations(network, rows)
    passes = REFINED * followed * n * _product(network, forward) + 3 * system * forward + STEP
    if size >= system:
        equations = 2 * system**2 * size + 2 * system**3
        return passes + equations + REFINED * followed * (4 * system * size + 8 * system**2)
    equations = 4 * system * size**2 + size**3
    return passes + equations + REFINED * followed * 4 * size**2 * (1 + count)


def operations(network: Network, rows: Examples) -> float:
    """Operations of a forward pass for one row; at least two for each parameter."""
    some = rows.X[:4]
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.outputs(network.start, some)
    return float(max(counter.get_total_flops() / len(some), 2 * network.size))


def _product(network: Network, forward: float) -> float:
    """Operations for one row and one copy."""
    work = PASSES * forward + TRAFFIC * network.activations
    return work if network.by_layers else UNUSUAL * work


def duration(seconds: float) -> str:
    """Seconds, or minutes where there are many.

    Example:
        >>> duration(0.2), duration(89.0), duration(600.0)
        ('0.2 s', '89 s', '10 min')
    """
    if seconds < 10:
        return f"{max(0.1, seconds):.1f} s"
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} min"
