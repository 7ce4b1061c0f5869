r"""Which quadrature rules to average with, if any, and how fine they must be in the response.

The nodes of a Gauss–Hermite rule of order N are π/√N standard deviations apart. Squared losses need
a few nodes for a Gaussian response, robust losses with a scale below that of the noise a hundred,
so it is tried how many.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from decoupled_descent.datasets.responses import Noisy
from decoupled_descent.objective import Direction, Objective
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.state_evolution.gaussian import product_rule
from decoupled_descent.state_evolution.kinks import (
    Values,
    has_kinks,
    loss_has_kinks,
    probed_heads,
)
from decoupled_descent.state_evolution.laws import (
    MixtureLaw,
    atoms,
    gaussian_laws,
    response_rule,
)
from decoupled_descent.state_evolution.populations import ORDERS, Orders

#: Orders to try for a Gaussian response: each halves the distance between nodes.
RESPONSE_ORDERS = (4, 16, 64, 256, 1024)
#: Neighbouring orders that agree this well, as a share of the mean, need not be refined.
AGREEMENT = 1e-8
#: The finest order affordable must agree this well with its neighbour, else one samples.
LEAST_AGREEMENT = 1e-4
#: How many rows a rule may have once it takes more than the fewest responses.
POINTS = 300_000
#: Response laws, and places per law, to try orders at.
LAWS, PLACES = 8, 16


def loss_orders(
    objective: Objective,
    mixture: MixtureLaw,
    width: int,
    order: int | None = None,
    parameters: Parameters | None = None,
) -> tuple[Orders, ...]:
    """Orders of two neighbouring Gauss–Hermite rules for E Ψ, or none where they are no good.

    The nodes of neighbouring rules interlace: where the two err, by jumps or by steep slopes, they
    err in opposite directions. Their mean is better than either, and half their difference says by
    how much it may still be off.

    Args:
        objective: Ψ, which needs no gradient.
        mixture: The mixture.
        width: L.
        order: Nodes per coordinate of h; chosen by L when not given.
        parameters: a; by default the objective's own, and larger.

    Returns:
        Two orders; none when a response law cannot be enumerated or takes too many nodes, when L is
        too large and no order was given, or across kinks.

    Example:
        >>> import decoupled_descent as dd
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> loss_orders(objective, dd.mixtures.xor(dimension=2), width=2)
        (Orders(normals=64, responses=4), Orders(normals=65, responses=5))
    """

    def losses(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        return objective.losses(h, y, parameters).detach().double().unsqueeze(1)

    heads = probed_heads(objective) if parameters is None else [parameters]
    kinked = partial(loss_has_kinks, objective, mixture, width)
    return _orders(mixture, width, order, kinked, [partial(_at, losses, a) for a in heads])


def step_orders(
    objective: Objective,
    mixture: MixtureLaw,
    width: int,
    order: int | None = None,
    g: Direction | None = None,
) -> tuple[Orders, ...]:
    """Orders of two neighbouring rules, or none, for the expectations of the recursion.

    Args:
        objective: Ψ.
        mixture: The mixture.
        width: L.
        order: Nodes per coordinate of h; chosen by L when not given.
        g: Replaces ∇_hΨ.

    Returns:
        As :func:`loss_orders`, for Ψ, g and its square.

    Example:
        >>> import decoupled_descent as dd
        >>> linear, mixture = dd.heads.Linear(), dd.MixtureLimit([[0.0]], [1.0], [Noisy(0.0, 3.0)])
        >>> squared = dd.Objective(linear, "squared")
        >>> cauchy = dd.Objective(linear, lambda u, y: torch.log1p((u[:, 0] - y) ** 2))
        >>> [step_orders(objective, mixture, 1)[0].responses for objective in (squared, cauchy)]
        [4, 1024]
    """

    def values(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        found = objective.derivatives(h, y, parameters, g=g, jacobian=False, head=False)
        direction = found.direction.double()
        return torch.cat([found.loss.double().unsqueeze(1), direction, direction.square()], 1)

    kinked = partial(has_kinks, objective, mixture, width, g)
    heads = probed_heads(objective)
    return _orders(mixture, width, order, kinked, [partial(_at, values, a) for a in heads])


def _at(values: Values, parameters: Parameters, h: Tensor, y: Tensor) -> Tensor:
    return values(h, y, parameters)


def _orders(
    mixture: MixtureLaw,
    width: int,
    order: int | None,
    kinked: Callable[[], bool],
    values: list[Callable[[Tensor, Tensor], Tensor]],
) -> tuple[Orders, ...]:
    nodes = ORDERS.get(width) if order is None else order
    if nodes is None or atoms(mixture) is None:
        return ()
    reason = "across the kinks of this objective or g"
    responses = None
    if not kinked():
        reason = "for Gaussian responses, whose noise is wide for the slopes of this objective or g"
        responses = _response_order(mixture, width, nodes, values)
    if responses is not None:
        return Orders(nodes, responses), Orders(nodes + 1, responses + 1)
    if order is None:
        return ()
    raise ValueError(
        f"order={order} asks for Gauss–Hermite nodes, which can be off by percents {reason}; leave "
        "order out, and the averages are sampled"
    )


def _response_order(
    mixture: MixtureLaw,
    width: int,
    nodes: int,
    values: list[Callable[[Tensor, Tensor], Tensor]],
) -> int | None:
    """The first order that agrees with the next, or nearly; None where none comes close."""
    laws = gaussian_laws(mixture)
    least, *finer = RESPONSE_ORDERS
    if not laws:
        return least
    size = len(laws) * len(product_rule(width, nodes)[1])
    affordable = [r for r in finer if size * len(response_rule(r)[1]) <= POINTS]
    laws = sorted(laws, key=lambda law: abs(law.scale))
    laws = [laws[k] for k in sorted({round(k * (len(laws) - 1) / (LAWS - 1)) for k in range(LAWS)})]
    gaps: dict[int, float] = {}
    for order in (least, *affordable):
        gap = max(_disagreement(value, law, width, order) for value in values for law in laws)
        gaps[order] = gap
        if gap <= AGREEMENT:
            return order
    if min(gaps.values()) > LEAST_AGREEMENT:
        return None
    # refining does nothing against rounding, which a loss in float32 brings with it
    return next(order for order, gap in gaps.items() if gap <= 10 * min(gaps.values()))


def _disagreement(
    values: Callable[[Tensor, Tensor], Tensor], law: Noisy, width: int, order: int
) -> float:
    """By how much means over y given h differ between two orders; infinite if not finite."""
    z = torch.randn(PLACES, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z[0] = 0
    h = torch.cat([2 * z, law.mean + law.scale * z])  # of order one, and where responses are
    means, sizes = [], torch.zeros(())
    for nodes, weights in (response_rule(order), response_rule(order + 1)):
        y = (law.mean + law.scale * nodes).repeat(len(h))
        found = values(h.repeat_interleave(len(nodes), 0), y)
        found = found.reshape(len(h), len(nodes), -1)
        means.append(torch.einsum("q,hqk->hk", weights, found))
        sizes = torch.einsum("q,hqk->k", weights, found.abs()) / len(h)
    gaps = (means[0] - means[1]).abs() / sizes.clamp(min=1e-300)
    return float(gaps.nan_to_num(nan=torch.inf).max())
