"""Decoupled descent as the paper's appendix implements it, for comparisons and timing."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional


class Listing:
    """The paper's PyTorch listing for a two-layer tanh network, one reverse pass per hidden unit.

    The loss is a mean over rows, so that ĥ and the memory carry a factor 1/n; this is
    ``DecoupledDescent(lr, reduction="mean")`` with a :class:`~decoupled_descent.heads.TwoLayer`
    head under the logistic loss. ``theta`` (L, d) and ``output`` (1, L) are the weights to start
    from. Paper: the listing of Section sec:implementation, lines 29 to 45.
    """

    def __init__(
        self, X: Tensor, y: Tensor, theta: Tensor, output: Tensor, lr: float = 1.0
    ) -> None:
        self.X, self.y, self.lr = X, y, lr
        self.first, self.second = nn.Parameter(theta.clone()), nn.Parameter(output.clone())
        self.memory = theta.new_zeros(len(X), len(theta))

    def step(self) -> float:
        """Make one update and return the train error before it."""
        z = self.X @ self.first.T + self.memory
        logits = (torch.tanh(z) @ self.second.T).squeeze(1)
        loss = functional.binary_cross_entropy_with_logits(logits, self.y)
        (direction,) = torch.autograd.grad(loss, z, create_graph=True)
        jacobian = torch.stack(
            [
                torch.autograd.grad(direction[:, unit].sum(), z, retain_graph=True)[0].mean(dim=0)
                for unit in range(len(self.first))
            ]
        )
        ratio = self.X.shape[0] / self.X.shape[1]
        with torch.no_grad():
            slope = torch.autograd.grad(loss, self.second, retain_graph=True)[0]
            self.second.sub_(self.lr * slope)
            tilde = direction.t() @ self.X - ratio * (jacobian @ self.first)
            self.first.copy_(self.first - self.lr * tilde)
            self.memory.add_(self.lr * direction.detach())
        return loss.item()
