r"""The path leave-one-out: runs without each row, followed beside the run with all rows.

The run with all rows makes damped Gauss–Newton steps on
F(β) = Σ_j w_j ℓ(o_j(β), y_j) + ½ λ‖β‖². With J_j = ∂o_j/∂β, g_j = ∇ℓ_j, W_j = ∇²ℓ_j and ν = λ + μ,

.. math::
   A = \sum_j w_j J_j^\top W_j J_j + \nu I, \qquad G = \nabla F(\beta), \qquad
   A p = G, \qquad \beta \leftarrow \beta - \eta p .

β_i = β + Δ_i is the run that never saw row i (or group i), from the first step on. Its own step x
solves A'₋ᵢ x = G'₋ᵢ, where A'₋ᵢ and G'₋ᵢ are those without row i, **at β_i**. The matrix A₋ᵢ at β,
which differs from the shared A by one row only, is nearly the same, and p nearly solves the system.
One step of iterative refinement from p gives

.. math::
   \Delta_i \leftarrow \Delta_i - \eta A_{-i}^{-1} (G'_{-i} - A'_{-i} p), \qquad \Delta_i = 0
   \text{ at the start.}

The bracket is Σ_{j≠i} w_j J_jᵀ (g_j − W_j J_j p) + λ β_i − ν p at β_i: a forward and a reverse
pass. It contains the exact gradient of the run without row i, with all derivatives of the network.
An error of second order in Δ_i remains in the step alone; the next refinement, computed for a few
rows, measures it. Rows that are too far away for it are solved by conjugate gradients
(``far_rows.py``). The train error is the mean of ℓ(o(x_i; β_i), y_i): row i as if it were new, at
every step.

Linear outputs and squared loss with η = 1, μ = 0: one step is exact leave-one-out ridge regression.
At a minimum, p = 0 and G'₋ᵢ = 0: β_i is the minimum without row i.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.networks.path.curvature import FactoredMatrix, Parts, assemble
from decoupled_descent.networks.path.far_rows import Followers, checked, correct, mean_effect
from decoupled_descent.networks.path.losses import Expansion
from decoupled_descent.networks.path.other_rows import own_effects
from decoupled_descent.networks.path.problem import PathProblem

#: μ at the start, in units of the mean ‖C_jᵀ J_j‖², and the least that it may become. From small
#: values on, directions of small curvature are fitted as soon as those of large curvature, and new
#: rows are predicted worse.
DAMPING, LEAST = 16.0, 0.5
#: The nonlinearity of a step is how far its outputs are from those of the linearised network, as a
#: share of their own change. A step with more is too long: μ is multiplied by ``TIGHTER``.
NONLINEAR, TIGHTER = 0.5, 4.0
#: Between steps μ changes, by this factor at most, so that the next step has about ``AIM``, or
#: lowers F by this share, whichever is less: the best step is not jumped over.
EASING, AIM, PACE = 0.7, 0.2, 0.2
#: If the next refinement is larger than this share of the last, μ is doubled: the runs without rows
#: are too far from the run with all rows for its matrix. Two refinements leave the square of it.
CONTRACTION = 0.5
#: A run that fits the rows it has worse than the run with all rows does, by this share, is lost.
LOST = 0.1
#: How often a step is made shorter before it is taken as it is.
TRIES = 12


class Trajectory(NamedTuple):
    """What is carried from step to step."""

    beta: Tensor  # β, shape (P,)
    differences: Tensor  # Δ, shape (m, P)
    damping: float  # μ, in units of the mean ‖C_jᵀ J_j‖²
    errors: Tensor  # by how much Δ is wrong for the few groups that are checked, shape (c, P)
    effects: Tensor  # sums of past effects of rows on themselves, see ``other_rows``, (2, n, K)


class Report(NamedTuple):
    """What a step reports of the iterate before it."""

    outputs: Tensor  # o(x_i; β_i) of the rows that are followed, shape (r, K)
    fitted: float  # Σ_j w_j ℓ_j / Σ_j w_j at β
    damping: float  # μ of the step
    nonlinearity: float  # how far the step is from that of a linear model
    drift: float  # how much too high the mean loss is, as the next refinements have it
    contraction: float  # the size of the next refinement, as a share of this one
    change: float  # the largest change of any β, as a share of its length
    fitted_outputs: Tensor  # o(x_i; β) of all rows, shape (n, K)
    moved: Tensor  # o(x_i; β_k) − o(x_i; β) for all groups k, shape (m, n, K)
    effects: Tensor  # sums of effects of rows on themselves, see ``other_rows``, shape (3, n, K)
    lost: Tensor  # whether a run fits the rows that it has worse than β does, shape (m,)


def start(problem: PathProblem, beta: Tensor) -> Trajectory:
    """All runs are the same: no row has been seen."""
    differences = beta.new_zeros(problem.followed.count, len(beta))
    damping = DAMPING if problem.damping is None else problem.damping
    effects = beta.new_zeros(2, problem.rows.n, problem.followed.outputs)
    return Trajectory(beta, differences, damping, differences[checked(problem)], effects)


def step(problem: PathProblem, path: Trajectory) -> tuple[Trajectory, Report]:
    """Move the run with all rows, and those without each of the groups that are followed."""
    rate, followed = problem.rate, problem.followed
    at = _expand(problem, path.beta)
    if not (at.gradient.isfinite().all() and math.isfinite(at.value + at.scale)):
        return path, _unknown(problem, path, at)
    move = _move(problem, path, at)
    betas = path.beta + path.differences
    refined = at.expansion.exact  # else A'₋ᵢ is not its second derivative
    residual, outputs = problem.residual(betas, move.nu, move.p if refined else None)
    change = move.curvature.solve_without(residual, followed.members())
    if not refined:
        change.sub_(move.p)
    values = problem.values(outputs, betas)
    lost = ~(values <= (1 + LOST) * problem.values(at.outputs, path.beta))
    contraction, drift, errors = 0.0, 0.0, path.errors
    if refined:
        drift = mean_effect(problem, betas[checked(problem)], errors)
        shared = (move.curvature, move.nu, move.p)
        runs = Followers(problem, *shared, betas, change, values)
        contraction, errors = correct(runs, path.differences, errors, lost)
    damping = move.following
    if problem.damping is None and contraction > CONTRACTION:
        damping = max(damping, 2 * move.damping)
    sums, effects = _effects(problem, path, at, move)
    following = Trajectory(
        path.beta - rate * move.p, path.differences.sub(change, alpha=rate), damping, errors, sums
    )
    largest = max(float(move.p.norm()), float(change.norm(dim=1).max()))
    length = max(float(path.beta.norm()), 1e-30)
    numbers = (at.fitted, move.damping, move.nonlinearity, drift, contraction, largest / length)
    left_out = outputs[followed.group, followed.rows]
    moved = outputs - at.outputs
    return following, Report(left_out, *numbers, at.outputs, moved, effects, lost)


def _effects(problem: PathProblem, path: Trajectory, at: _At, move: _Move) -> tuple[Tensor, Tensor]:
    """The sums of effects of rows on themselves after this step, and what predicts by them now."""
    rows = problem.rows
    if problem.followed.count == int(rows.groups.max()) + 1:
        return path.effects, path.effects
    slopes, roots = at.expansion.slopes, at.expansion.roots
    along = problem.network.direction(path.beta, rows.X, move.p)
    curved = torch.einsum("jab,jcb,jc->ja", roots, roots, along)
    right = rows.weights[:, None] * torch.stack([slopes - curved, slopes])
    everyone = rows.follow(problem.followed.outputs)
    weighted = roots * rows.weights.sqrt()[:, None, None]
    now, ending = own_effects(weighted, right, move.curvature, everyone)
    fading = torch.tensor([1.0, 1 - problem.rate]).to(now)[:, None, None]
    return fading * path.effects + now, torch.cat([path.effects, ending.unsqueeze(0)])


def _unknown(problem: PathProblem, path: Trajectory, at: _At) -> Report:
    """The report where the loss or its derivatives are not finite: from here there is no step."""
    followed, nan = problem.followed, math.nan
    own = at.outputs[followed.rows]
    moved = own.new_full((followed.count, *at.outputs.shape), nan)
    lost = torch.ones(followed.count, dtype=torch.bool)
    numbers = (nan, path.damping, nan, nan, nan, nan)
    return Report(torch.full_like(own, nan), *numbers, at.outputs, moved, path.effects, lost)


class _At(NamedTuple):
    """The objective at β to second order."""

    outputs: Tensor
    expansion: Expansion
    parts: Parts
    gradient: Tensor  # G
    value: float  # F
    fitted: float
    scale: float  # the mean ‖C_jᵀ J_j‖²


class _Move(NamedTuple):
    """The step of the run with all rows."""

    p: Tensor
    curvature: FactoredMatrix
    nu: float
    damping: float
    following: float  # the damping of the next step
    nonlinearity: float


def _expand(problem: PathProblem, beta: Tensor) -> _At:
    network, rows = problem.network, problem.rows
    outputs = network.outputs(beta, rows.X)
    expansion = network.expand(outputs, rows.y, rows.spread)
    roots = expansion.roots * rows.weights.sqrt()[:, None, None]
    blocks = (
        roots[span].mT @ jacobian
        for span, jacobian in network.jacobians(beta, rows.X, outputs.shape[1])
    )
    dual = network.size >= outputs.numel()
    parts = assemble(blocks, dual)
    gradient = network.gradient(beta, rows.X, rows.y, rows.weights) + problem.ridge * beta
    fitted = float(rows.weights @ expansion.losses)
    value = fitted + 0.5 * problem.ridge * float(beta @ beta)
    share = fitted / float(rows.weights.sum())
    return _At(outputs, expansion, parts, gradient, value, share, parts.scale / rows.n)


def _move(problem: PathProblem, path: Trajectory, at: _At) -> _Move:
    """Solve A p = G, with μ large enough for the linearisation to hold along the step."""
    network, rows = problem.network, problem.rows
    fixed, damping = problem.damping is not None, path.damping
    for _ in range(TRIES):
        nu = problem.ridge + damping * at.scale
        curvature = at.parts.with_damping(nu)
        p = curvature.solve(at.gradient)
        if fixed:
            return _Move(p, curvature, nu, damping, damping, 0.0)
        moved = path.beta - problem.rate * p
        outputs = network.outputs(moved, rows.X)
        linear = -problem.rate * network.direction(path.beta, rows.X, p)
        nonlinearity = _ratio(at, outputs - at.outputs - linear, linear)
        value = float(rows.weights @ network.losses(outputs, rows.y))
        value += 0.5 * problem.ridge * float(moved @ moved)
        if nonlinearity <= NONLINEAR and value <= at.value + 1e-6 * abs(at.value):
            break
        damping *= TIGHTER
    progress = (at.value - value) / abs(at.value) if at.value else 0.0
    change = max(EASING, nonlinearity / AIM, progress / PACE)
    following = max(LEAST, damping * min(change, 1 / EASING))
    return _Move(p, curvature, nu, damping, following, nonlinearity)


def _ratio(at: _At, error: Tensor, change: Tensor) -> float:
    """How large an error of outputs is beside their change, where the loss is curved."""
    sizes = [
        float((at.expansion.roots.mT @ each.unsqueeze(2)).double().square().sum())
        for each in (error, change)
    ]
    return math.sqrt(sizes[0] / sizes[1]) if sizes[1] > 0 else 0.0
