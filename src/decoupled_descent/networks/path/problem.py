"""What the path leave-one-out minimises, for all rows and without each group of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from decoupled_descent.networks.examples import Examples, FollowedGroups
from decoupled_descent.networks.path.derivatives import Network


@dataclass(frozen=True)
class PathProblem:
    """What is minimised, and for which groups of rows the runs without them are followed."""

    network: Network
    rows: Examples
    followed: FollowedGroups
    ridge: float
    rate: float  # η
    damping: float | None  # μ if it is fixed

    @cached_property
    def weights(self) -> Tensor:
        """The weights of all rows in the run without each group, shape (m, n)."""
        return self.followed.weights_without(self.rows)

    def residual(
        self, betas: Tensor, nu: float, along: Tensor | None, some: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """The residual at β_i, G'₋ᵢ − A'₋ᵢ p, or G'₋ᵢ without p, shape (m, P).

        The second result are the outputs of all rows at β_i, shape (m, n, K).
        """
        weights = self.weights if some is None else self.weights[some]
        X, y = self.rows.X, self.rows.y
        result, outputs = self.network.residuals(betas, X, y, weights, along)
        result.add_(betas, alpha=self.ridge)
        return (result if along is None else result.sub_(nu * along)), outputs

    def values(self, outputs: Tensor, betas: Tensor, some: Tensor | None = None) -> Tensor:
        """F₋ᵢ for parameters β_i, shape (m,), from their outputs for all rows, (m, n, K).

        Parameters and outputs may also be the same for all groups, (P,) and (n, K).
        """
        weights = self.weights if some is None else self.weights[some]
        y = self.rows.y
        if outputs.ndim == 2:
            losses = self.network.losses(outputs, y)
        else:
            count = len(outputs)
            repeated = y.repeat(count, *(1,) * (y.ndim - 1))
            losses = self.network.losses(outputs.flatten(0, 1), repeated).reshape(count, -1)
        return (weights * losses).sum(1) + 0.5 * self.ridge * betas.square().sum(-1)

    def some_groups(self, count: int) -> Tensor:
        """The numbers of so many groups, evenly spaced."""
        places = torch.linspace(0, self.followed.count - 1, min(count, self.followed.count))
        return places.round().long().to(self.followed.rows)
