r"""Whether a start knows the labels: a permutation test of its last weights.

A network that was trained on the same rows before carries their labels, and every way to leave rows
out comes too late. Its last layer then fits what the layers before it have learned: with the same
weights in another order it predicts much worse. In a new layer the weights are drawn alike and
independently. Any order of them is then as probable as any other, whatever the layers before it
have learned elsewhere, and whatever relation there is between rows and labels:

.. math:: p = \frac{1 + \#\{\pi : \bar\ell(\beta_\pi) \le \bar\ell(\beta)\}}{1 + \#\pi} .

So the level is exact for new layers, also behind a pretrained backbone, and no model is fitted.
Permuted *labels* would not do: where labels depend on rows, every second random start predicts
them better than permuted ones, and significantly so.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import functional_call

from decoupled_descent.networks.last_layer import weights_last_first

#: Orders that are tried; they stop at the first that predicts as well. So the level is 1/1001.
ORDERS = 1000
#: As many of the last weights are put in order as have so many orders, as a logarithm.
ENOUGH = math.log(1e6)
#: The most rows that are used, evenly spaced.
MOST_ROWS = 2000


@torch.no_grad()
def label_level(
    model: nn.Module, losses: Callable[[Tensor, Tensor], Tensor], X: Tensor, y: Tensor
) -> float:
    """The p-value of the hypothesis that the last weights of a model do not know the labels.

    Args:
        model: The start; it is not changed.
        losses: The losses of outputs and labels, shape (n,).
        X: The rows.
        y: Their labels.

    Returns:
        p; 1/1001 if no order of the weights predicts the labels as well.

    Example:
        >>> X, labels = torch.eye(9), torch.arange(9.0)
        >>> model = nn.Linear(9, 1)
        >>> squares = lambda outputs, y: (outputs.squeeze(1) - y).square()
        >>> label_level(model, squares, X, labels) > 0.001
        True
        >>> _ = model.weight.data.copy_(labels - model.bias.data)
        >>> label_level(model, squares, X, labels) < 0.001
        True
    """
    model = copy.deepcopy(model).eval()
    some = torch.linspace(0, len(X) - 1, min(len(X), MOST_ROWS)).round().long()
    X, y = X[some.to(X.device)], y[some.to(y.device)]
    given = {}
    for name, weight in weights_last_first(model, X[:2]):
        given[name] = weight
        if sum(map(_log_orders, given.values())) > ENOUGH:
            break
    first = _mean(losses, model(X), y)
    generator = torch.Generator().manual_seed(0)
    for tried in range(1, ORDERS + 1):
        drawn = {name: _in_any_order(weight, generator) for name, weight in given.items()}
        if not _mean(losses, functional_call(model, drawn, (X,)), y) > first:
            return 1 / tried
    return 1 / (1 + ORDERS)


def _mean(losses: Callable[[Tensor, Tensor], Tensor], outputs: Tensor, y: Tensor) -> float:
    return float(losses(outputs, y).double().mean())


def _log_orders(weight: Tensor) -> float:
    """The logarithm of the number of orders that are different."""
    repeated = torch.unique(weight, return_counts=True)[1].double()
    return float(
        torch.lgamma(torch.tensor(weight.numel() + 1.0)) - torch.lgamma(repeated + 1).sum()
    )


def _in_any_order(weight: Tensor, generator: torch.Generator) -> Tensor:
    order = torch.randperm(weight.numel(), generator=generator).to(weight.device)
    return weight.flatten()[order].reshape(weight.shape)
