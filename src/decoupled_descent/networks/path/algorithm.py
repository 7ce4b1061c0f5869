r"""Decoupled Gauss–Newton: every layer of any network, with every row left out of the path."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.checks import is_finite_number, whole_number
from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.info import Info
from decoupled_descent.networks.agreement import copies, rise
from decoupled_descent.networks.examples import Examples, FollowedGroups
from decoupled_descent.networks.modules import fresh_starts
from decoupled_descent.networks.path import steps
from decoupled_descent.networks.path.derivatives import CHUNK, Network
from decoupled_descent.networks.path.other_rows import completed, largest_groups, usual_number
from decoupled_descent.networks.path.pair_variance import left_out_factor, pair_variance
from decoupled_descent.networks.path.problem import PathProblem
from decoupled_descent.networks.path.training import fit_network
from decoupled_descent.networks.run import squeezed

#: The estimate is not trusted if its own error exceeds this share of its standard error. From the
#: second share on, or if more than this share of runs is lost, it never is again.
TRUSTED, FAILED, MANY = 0.5, 2.0, 0.2
#: Training ends when a step changes no parameter vector by more than this share of its length.
STANDSTILL = 1e-7


class PathState(NamedTuple):
    """What is carried from step to step."""

    paths: tuple[steps.Trajectory, ...]  # one for each start
    followed: Tensor  # the groups that are left out, shape (m,)
    step: int
    failed: bool = False  # whether the runs without rows could not be followed at an earlier step
    certain: int = 0  # how many of them were not drawn

    @property
    def theta(self) -> Tensor:
        """β of all starts, shape (S, P)."""
        return torch.stack([each.beta for each in self.paths])


@dataclass(frozen=True)
class DecoupledGaussNewton(Algorithm):
    r"""Damped Gauss–Newton steps for a whole network, with every row left out of the whole path.

    .. math::
       F(\beta) = \textstyle\sum_j w_j \ell(o_j(\beta), y_j) + \tfrac12\lambda\|\beta\|^2, \qquad
       \beta \leftarrow \beta - \eta A^{-1} \nabla F, \quad
       \Delta_i \leftarrow \Delta_i - \eta A_{-i}^{-1} (G'_{-i} - A'_{-i} A^{-1} \nabla F)

    β are all trainable parameters. β + Δ_i is the run that never saw row i, followed from the first
    step on; G'₋ᵢ and A'₋ᵢ are its gradient and its Gauss–Newton matrix. The train error is the mean
    loss of every row at its own β + Δ_i. It estimates the test error at every step, for every layer
    and any features, and assumes only that rows (or groups) are drawn independently.

    The network may be any module whose outputs for a row depend on that row alone. Rows may have
    any shape. Time grows like n m P per step, memory like (n K + 6 m) P + 4 n m K numbers, for n
    rows of which m are followed, K outputs and P trainable parameters.

    Args:
        ridge: λ, the weight decay; the loss is a sum over rows.
        rate: η, the share of a damped Gauss–Newton step that is made.
        damping: μ in units of the mean squared length of the rows of the Jacobian, weighted by
            curvature. By default the algorithm chooses it, so that the network is nearly linear
            along each step.
        starts: The model is the mean of the outputs of this many runs from different starts; so are
            the left-out outputs. The first start is the module as it is.
        followed: Follow the runs without this many rows (or groups), a fifth of them those with the
            largest Jacobians, others drawn at random; by default about 5√n of n, at least 100. The
            left-out outputs of other rows are predicted from these, and the standard error contains
            what that misses.
        stratified: Whether classes keep their shares when a row is left out: the other rows of its
            class weigh more by as much. Otherwise the class is rarer without the row, so that the
            row is predicted wrong where there is no signal, which spoils accuracies and ranks.
        memory: Raise an error if more than this many gigabytes are needed.

    Example:
        >>> import torch, decoupled_descent as dd
        >>> X, y = dd.mixtures.xor(dimension=10, snr=6.0).sample(80, seed=0)
        >>> model = torch.nn.Sequential(
        ...     torch.nn.Linear(10, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)
        ... )
        >>> algorithm = dd.DecoupledGaussNewton(ridge=1.0)
        >>> run = dd.fit(X, y, model, algorithm, steps=5, loss="logistic")
        >>> run.train_error.shape, run.predict(X).shape, type(run.to_module()).__name__
        (torch.Size([5]), torch.Size([80]), 'Sequential')
    """

    how: ClassVar[str] = "path"
    takes_weights: ClassVar[bool] = True
    uses_jacobian: ClassVar[bool] = False
    trains_modules: ClassVar[bool] = True

    ridge: float = 1.0
    rate: float = 0.6
    damping: float | None = None
    starts: int = 1
    followed: int | None = None
    stratified: bool = True
    memory: float = 8.0

    def __post_init__(self) -> None:
        """Check the options."""
        for name in ("ridge", "rate", "memory"):
            value = getattr(self, name)
            if not is_finite_number(value) or not float(value) > 0:
                raise ValueError(f"{name}={value!r} must be a positive number")
        if self.rate > 1:
            raise ValueError(f"rate={self.rate!r} must be at most 1, a full step")
        if self.damping is not None and not (is_finite_number(self.damping) and self.damping >= 0):
            raise ValueError(f"damping={self.damping!r} must be a number of at least 0, or None")
        whole_number("starts", self.starts)
        if self.followed is not None:
            whole_number("followed", self.followed, least=2)

    def init(
        self, rows: Any, objective: Any, theta: Tensor | None = None, seed: int | None = None
    ) -> PathState:
        """Return the state before any update.

        Args:
            rows: The data, :class:`~decoupled_descent.networks.examples.Examples`.
            objective: The network.
            theta: β of all starts, shape (S, P); the module's own parameters by default.
            seed: Draws the other starts, and the groups that are followed.

        Returns:
            The starting state.
        """
        network: Network = objective
        count = network.outputs(network.start, rows.X[:2]).shape[1]
        groups, first = int(rows.groups.max()) + 1, None
        number = self.number(groups)
        if number < groups:
            with network.differentiable(), torch.no_grad():
                parts = network.jacobians(network.start, rows.X, count)
                sizes = torch.cat([part.square().sum((1, 2)) for _, part in parts])
            first = largest_groups(sizes, rows, number)
        followed = rows.follow(count, number, seed, self.stratified, first)
        self._check_memory(rows.n * count, followed.count, network)
        betas = fresh_starts(network, self.starts, seed) if theta is None else list(theta)
        problem = self._problem(network, rows, followed)
        paths = tuple(steps.start(problem, beta) for beta in betas)
        return PathState(paths, followed.chosen, 0, certain=followed.certain)

    def start(self, rows: Any, bound: Any, theta: Tensor) -> PathState:
        """The state before any update, at given parameters; see :meth:`init`."""
        return self.init(rows, bound, theta)

    @torch.no_grad()
    def step(self, state: Any, rows: Any, objective: Any) -> tuple[PathState, Info]:
        """Make one step from every start; see :meth:`Algorithm.step`."""
        network: Network = objective
        count = network.outputs(network.start, rows.X[:2]).shape[1]
        followed = rows.followed(state.followed, count, self.stratified, state.certain)
        problem = self._problem(network, rows, followed)
        with network.differentiable():
            made = [steps.step(problem, each) for each in state.paths]
        seen = [each for _, each in made]
        left_out, fitted, moved, effects = (
            torch.stack([getattr(each, name) for each in seen]).mean(0)
            for name in ("outputs", "fitted_outputs", "moved", "effects")
        )
        outputs, missed = completed(network, rows, followed, left_out, fitted, effects)
        row_losses, own = network.losses(outputs, rows.y), followed.rows
        losses = rows.follow(count).averaged(rows, row_losses)
        drift = sum(each.drift for each in seen) / len(seen)
        slopes = network.slopes(outputs, rows.y)
        factor = left_out_factor(slopes, network.slopes(fitted, rows.y))
        effects = torch.einsum("krc,rc->rk", moved, slopes)
        shares = followed.shares(len(losses))
        pairs = pair_variance(followed.summed(rows, effects[own]), factor, shares)
        info = Info(losses, outputs, None, pairs=pairs + missed)
        lost = torch.stack([each.lost for each in seen]).any(0)
        gap = (row_losses - network.losses(fitted, rows.y)).abs()[own] * lost[followed.group]
        gap = gap * shares[followed.group]
        error = (abs(drift) + float(gap.mean())) / max(info.train_error_stderr, 1e-300)
        failed = state.failed or not error <= FAILED or float((lost * shares).mean()) > MANY
        paths = tuple(each for each, _ in made)
        following = state._replace(paths=paths, step=state.step + 1, failed=failed)
        info = info._replace(
            estimates=error <= TRUSTED and not failed,
            finished=all(each.change <= STANDSTILL for each in seen),
            notes={
                "fitted": sum(each.fitted for each in seen) / len(seen),
                "damping": max(each.damping for each in seen),
                "nonlinearity": max(each.nonlinearity for each in seen),
                "contraction": max(each.contraction for each in seen),
                "drift": drift,
                "lost": float(lost.sum()),
                "lost_error": float(gap.mean()),
                "failed": float(failed),
                **_resemblance(rows, followed, slopes, effects, factor),
            },
        )
        return following, info

    def _problem(self, network: Network, rows: Examples, followed: FollowedGroups) -> PathProblem:
        options = (float(self.ridge), float(self.rate), self.damping)
        return PathProblem(network, rows, followed, *options)

    def fit(self, X: Any, y: Any, model: Any, **options: Any) -> Any:
        """Train a module; see ``decoupled_descent.networks.path.training.fit_network``."""
        return fit_network(X, y, model, self, **options)

    def outputs(self, state: Any, preactivations: Tensor, bound: Any) -> Tensor:
        """Outputs of the rows as if they were new, (n,) or (n, K)."""
        return squeezed(preactivations)

    def assumptions(self) -> frozenset[str]:
        """None but that rows are independent."""
        return frozenset()

    def number(self, groups: int) -> int:
        """How many of so many groups are followed."""
        return usual_number(groups) if self.followed is None else min(groups, self.followed)

    def memory_for(self, rows: int, groups: int, network: Network) -> float:
        """Gigabytes for so many outputs of rows, and groups that are followed."""
        size, width = network.size, network.start.element_size()
        system = min(rows, size)
        numbers = rows * size + 6 * self.starts * groups * size
        numbers += (3 + self.starts) * groups * rows  # outputs of all rows in all runs
        return (width * (numbers + CHUNK) + 24 * system**2) / 1e9

    def _check_memory(self, rows: int, groups: int, network: Network) -> None:
        """Raise ``ValueError`` if the Jacobian and the differences do not fit."""
        size, needed = network.size, self.memory_for(rows, groups, network)
        if needed > self.memory:
            raise ValueError(
                f"{rows} outputs, {groups} rows (or groups) to follow and {size} trainable "
                f"parameters need about {needed:.3g} GB, but memory={self.memory:g}; pass "
                f"followed={max(2, groups // 10)}, freeze layers, raise memory, or use CrossFit"
            )


def _resemblance(
    rows: Examples, followed: FollowedGroups, slopes: Tensor, effects: Tensor, factor: float
) -> dict[str, float]:
    """Copies of rows, and the effect of nearest rows, where these are followed."""
    number = torch.full((int(rows.groups.max()) + 1,), -1, device=rows.groups.device)
    number[followed.chosen] = torch.arange(followed.count, device=number.device)
    near, further = (number[rows.groups[each]] for each in (rows.nearest.row, rows.nearest.next))
    return {**copies(slopes, rows.nearest), "rise": rise(effects, near, further, factor)}
