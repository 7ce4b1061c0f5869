r"""Groups whose run is far from the run with all rows: their steps by conjugate gradients.

The step of the run without row i solves A'₋ᵢ x = G'₋ᵢ, with the matrix at its own parameters
β_i. One refinement with the shared matrix A₋ᵢ at β leaves an error of the size of
A₋ᵢ⁻¹ (A₋ᵢ − A'₋ᵢ), which grows with Δ_i = β_i − β. Where it is more than a few tenths, refinements
may diverge. For these rows the system is solved by conjugate gradients, which converge for any two
positive matrices; the shared one is their preconditioner. To find them, runs are checked in
the order of ‖Δ_i‖, until none of those that are checked needs it.

A run without row i minimises the loss of the other rows. If it fits them worse than the run with
all rows does, F₋ᵢ(β_i) > F₋ᵢ(β), it has lost its way. Such a run makes shorter steps, which lower
its own F₋ᵢ, and the estimate of its row counts as an error.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.leave_one_out.conjugate_gradients import Iterate, conjugate_gradients
from decoupled_descent.networks.path.curvature import FactoredMatrix
from decoupled_descent.networks.path.problem import PathProblem

#: For this many groups per step, evenly spaced, the next refinement measures the error; as many of
#: those that are farthest from the run with all rows are checked.
CHECKED = 8
#: Where the next refinement is larger than this share of the last, conjugate gradients go on until
#: it is below the second share, or for so many rounds. Simple refinements converge up to a share of
#: one, and lose a digit every two rounds at 0.3.
APART, CLOSE, ROUNDS = 0.3, 0.1, 8
#: If the next refinement is larger than this share of the last, it is made for all groups.
AGAIN = 0.1
#: How often the step of a run is halved to lower the loss of its rows.
HALVINGS = 6


class Followers(NamedTuple):
    """The runs without each group, and the step that they are about to make."""

    problem: PathProblem
    curvature: FactoredMatrix  # A at β
    nu: float
    p: Tensor  # the step of the run with all rows, shape (P,)
    betas: Tensor  # β_i, shape (m, P)
    change: Tensor  # what is added to p, shape (m, P)
    values: Tensor  # F₋ᵢ(β_i), shape (m,)

    def solve(self, residual: Tensor, some: Tensor) -> Tensor:
        """A₋ᵢ⁻¹ v_i for some groups."""
        members = self.problem.followed.members(some)
        return self.curvature.solve_without(residual, members)

    def residual(self, change: Tensor, some: Tensor) -> Tensor:
        """What is missing in the equations of some groups after these changes."""
        along = self.p + change
        return self.problem.residual(self.betas[some], self.nu, along, some)[0]


def correct(
    runs: Followers, differences: Tensor, errors: Tensor, lost: Tensor
) -> tuple[float, Tensor]:
    """Correct the changes of runs that are far away, in place.

    Args:
        runs: All runs.
        differences: Δ, shape (m, P).
        errors: By how much Δ is wrong by now for a few groups, see ``checked``, shape (c, P).
        lost: Which groups fit the other rows worse than the run with all rows, shape (m,).

    Returns:
        The size of the next refinement as a share of the last, and the errors after this step.
    """
    sample = checked(runs.problem)
    order = differences.norm(dim=1).argsort(descending=True)
    far = order[:CHECKED]
    some = torch.cat([sample, far[~torch.isin(far, sample)]])
    change = runs.change[some]
    residual = runs.residual(change, some)
    further = runs.solve(residual, some)
    own = slice(len(sample))
    carried = _carried(runs, sample, errors, change[own], residual[own])
    size = float(change[own].double().norm())
    contraction = float(further[own].double().norm()) / size if size > 0 else 0.0
    apart = _resolved(runs, some, change, residual, further)
    left = runs.problem.rate * further[own] * ~apart[own].unsqueeze(1)
    _shorten(runs, lost.nonzero().squeeze(1))
    if contraction > AGAIN:
        _refine(runs, torch.arange(len(runs.betas), device=sample.device))
        return contraction, carried + contraction * left
    going, first, count = bool(torch.isin(far, some[apart]).any()), CHECKED, 2 * CHECKED
    while going and first < len(order):
        going = bool(_refine(runs, order[first : first + count]).any())
        first, count = first + count, 2 * count
    return contraction, carried + left


def checked(problem: PathProblem) -> Tensor:
    """The groups, evenly spaced, for which the error of Δ is measured."""
    return problem.some_groups(CHECKED)


def mean_effect(problem: PathProblem, betas: Tensor, errors: Tensor) -> float:
    """How much too high the mean loss is, for the errors of a few groups; ``betas`` are theirs."""
    network = problem.network
    first = problem.followed.first[checked(problem)]  # a row of each of these groups
    X, y = problem.rows.X[first], problem.rows.y[first]
    slopes = network.slopes(network.own_outputs(betas, X), y)
    return float((slopes * network.own_directions(betas, X, errors)).sum(1).mean())


def _carried(
    runs: Followers, some: Tensor, errors: Tensor, change: Tensor, residual: Tensor
) -> Tensor:
    """The errors after a step without new ones: E − η A₋ᵢ⁻¹ (A'₋ᵢ − μ I) E."""
    if not bool(errors.any()):
        return errors
    image = residual - runs.residual(change + errors, some)
    image.sub_(errors, alpha=runs.nu - runs.problem.ridge)
    return errors - runs.problem.rate * runs.solve(image, some)


def _refine(runs: Followers, some: Tensor) -> Tensor:
    """Refine the changes of some groups once more; return which needed conjugate gradients."""
    change = runs.change[some]
    residual = runs.residual(change, some)
    further = runs.solve(residual, some)
    apart = _resolved(runs, some, change, residual, further)
    runs.change[some] += further * ~apart.unsqueeze(1)
    return apart


def _resolved(
    runs: Followers, some: Tensor, change: Tensor, residual: Tensor, further: Tensor
) -> Tensor:
    """Solve for the groups that refinements do not serve; return which these are."""
    apart: Tensor = ~(further.norm(dim=1) <= APART * change.norm(dim=1))
    if bool(apart.any()):
        own = some[apart]
        runs.change[own] = _solved(runs, own, change[apart], residual[apart])
        _shorten(runs, own)
    return apart


def _solved(runs: Followers, some: Tensor, change: Tensor, residual: Tensor) -> Tensor:
    """Solve A'₋ᵢ (p + change) = G'₋ᵢ."""

    def times(direction: Tensor) -> tuple[Tensor, Tensor]:
        """A'₋ᵢ d."""
        return residual - runs.residual(change + direction, some), residual.new_zeros(())

    def done(at: Iterate) -> bool:
        return bool((at.z.norm(dim=1) <= CLOSE * (change + at.x).norm(dim=1)).all())

    found = conjugate_gradients(
        times,
        lambda rest: runs.solve(rest, some),
        residual,
        done,
        ROUNDS,
        inner=lambda one, other: (one * other).sum(1, keepdim=True),
    )
    return change + found.x


def _shorten(runs: Followers, some: Tensor) -> None:
    """Halve the steps of some groups until the losses of their own rows fall."""
    problem = runs.problem
    for _ in range(HALVINGS):
        if not len(some):
            return
        steps = runs.p + runs.change[some]
        moved = runs.betas[some] - problem.rate * steps
        outputs = problem.network.copy_outputs(moved, problem.rows.X)
        rises = ~(problem.values(outputs, moved, some) <= runs.values[some])
        some = some[rises]
        runs.change[some] = 0.5 * steps[rises] - runs.p
