r"""Weights that keep the shares of the classes when rows are left out, as stratified folds do.

Leaving a row out makes its class rarer. With balanced classes and no signal every row would then be
predicted wrong. So the other rows of class c get the weight of the rows G that leave,

.. math:: w_j \to (1 + ε_c)\, w_j, \qquad ε_c = \frac{w_{G,c}}{w_c - w_{G,c}},

which moves the outputs of G, to first order and before the rows themselves are left out, by

.. math:: -t_G, \qquad t_G = \sum_c ε_c \bigl[(V u_c)_G - V_{GG}\, u_{c,G}\bigr],

u_c being the gradients g of the rows of class c and zero elsewhere. A class of which no row is left
cannot keep its share; its ε is zero.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import one_hot

from decoupled_descent.leave_one_out.minimum import Minimum

#: A class has lost all of its rows if less than this share of its weight is left.
EMPTY = 1e-12


@dataclass(frozen=True, eq=False)
class ClassShares:
    """The classes of the rows, their weights, and how far each class moves the outputs."""

    classes: Tensor  # of the rows, shape (n,)
    weights: Tensor  # of the rows, shape (n,)
    totals: Tensor  # w_c, shape (C,)
    pulls: Tensor  # V u_c, shape (K, n, C)

    @classmethod
    def at(cls, minimum: Minimum) -> ClassShares | None:
        """The shares of the classes at a minimum; None if labels are not classes."""
        problem, gradients = minimum.problem, minimum.gradients
        classes = problem.classes
        if classes is None:
            return None
        count = max(2, gradients.shape[1])
        member = one_hot(classes, count).to(gradients)
        (totals,) = problem.rows.total(problem.weights @ member)
        pulls = minimum.influence @ (gradients.T.unsqueeze(2) * member)
        return cls(classes, problem.weights, totals, pulls)

    def raises(self, groups: Tensor) -> Tensor:
        """ε_c of each class for groups of rows (m, s) that leave, shape (m, C)."""
        member = one_hot(self.classes[groups], len(self.totals)).to(self.weights)
        leaving = (self.weights[groups].unsqueeze(2) * member).sum(1)
        left = self.totals - leaving
        return torch.where(left > EMPTY * self.totals, leaving / left, 0.0)

    def own_raises(self, rows: Tensor) -> Tensor:
        """ε of the class of each of some rows that leave one by one, shape (s,)."""
        classes = self.classes[rows].unsqueeze(1)
        return self.raises(rows.unsqueeze(1)).gather(1, classes).squeeze(1)

    def shifts(
        self, groups: Tensor, times: Callable[[Tensor], Tensor], gradients: Tensor
    ) -> Tensor:
        """t_G of groups of rows (m, s), shape (m, sK, 1), for products with V_GG and all g."""
        raises = self.raises(groups)
        own = raises.gather(1, self.classes[groups]).unsqueeze(2) * gradients[groups]  # (m, s, K)
        pulls = torch.einsum("kmsc,mc->msk", self.pulls[:, groups], raises)
        return pulls.flatten(1).unsqueeze(2) - times(own.flatten(1).unsqueeze(2))

    def factors(self, rows: Tensor) -> Tensor:
        """1 + ε, by which the weight of every row grows when one of some rows leaves, (n, s)."""
        return 1 + self.own_raises(rows) * (self.classes.unsqueeze(1) == self.classes[rows])

    def weights_without(self, row: int) -> Tensor:
        """The weights of all rows without one of them, shape (n,)."""
        alone = torch.tensor([row], device=self.classes.device)
        weights = self.weights * self.factors(alone).squeeze(1)
        weights[row] = 0.0
        return weights
