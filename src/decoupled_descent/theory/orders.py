r"""The choice between quadrature and sampling, and of the order of a quadrature rule.

The nodes of a Gauss–Hermite rule of order N are π/√N standard deviations apart. Across a jump of
size Δ the error is up to half of this distance times Δ φ(z), several percent for N = 64; across a
kink it is proportional to the square of the distance. Where there are jumps or kinks, averages are
sampled instead. Squared losses need a few nodes for a Gaussian response; robust losses with a scale
below that of the noise need a hundred. So several orders are tried.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.datasets.responses import Noisy
from decoupled_descent.objective import Parameters, kinks
from decoupled_descent.theory.averages import Model
from decoupled_descent.theory.gaussian import product_rule
from decoupled_descent.theory.laws import can_be_enumerated, is_gaussian, response_rule
from decoupled_descent.theory.populations import Nodes, quadrature_nodes, sampled_nodes

#: Gauss–Hermite nodes per coordinate of h, by L; wider heads are sampled.
ORDERS = {1: 64, 2: 64}
#: Orders to try for a Gaussian response: each halves the distance between nodes.
RESPONSE_ORDERS = (4, 16, 64, 256, 1024)
#: If two neighbouring orders differ by less than this share of the mean, the order is high enough.
AGREEMENT = 1e-8
#: The highest affordable order must agree this well with its neighbour; otherwise averages are
#: sampled.
LEAST_AGREEMENT = 1e-4
#: The largest number of rows of a rule that needs more than the smallest number of response nodes.
POINTS = 300_000
#: Points for averages at one time when the head is too wide for quadrature, or has kinks.
SAMPLES = 2**15
#: Response laws, and trial points per law, to try orders at.
LAWS, TRIALS = 8, 16


class Orders(NamedTuple):
    """Gauss–Hermite nodes of a rule per coordinate of h, and for a Gaussian response."""

    normals: int
    responses: int


def loss_has_kinks(model: Model) -> bool:
    """Whether Ψ or its slope jumps, so that E Ψ should be sampled. Ψ needs no gradient."""
    objective = model.objective
    if kinks.has_kinked_module(objective.head) or not objective.loss.smooth:
        return True
    if objective.closed_form:
        return False
    about = (objective.parameters, model.width, model.responses)
    if kinks.loss_jumps(objective.loss, objective.pure_head, *about) or _jump(model, model.losses):
        return True
    try:
        return _jump(model, objective.slopes)
    except (RuntimeError, ValueError):  # no gradient: the slope cannot be checked
        return True


def has_kinks(model: Model) -> bool:
    """Whether Ψ, its slope, g or their derivatives jump, so that the recursion should be sampled.

    A g that cannot be probed is taken to be smooth.
    """
    if loss_has_kinks(model):
        return True
    if not model.objective.closed_form and _jump(model, model.plain.row_jacobians):
        return True
    g = model.bound.g  # of the first step, where it depends on the step
    if g is None:
        return False

    def own(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        bends = model.bound.row_jacobians(h, y, parameters)
        return torch.cat([g(h, y, parameters).detach(), bends.flatten(1)], 1)

    try:
        return _jump(model, own)
    except (RuntimeError, ValueError):
        return False


def _jump(model: Model, values: kinks.Values) -> bool:
    """Whether values of (h, y, a) jump, along a few lines, for a few responses and weights."""
    objective = model.objective
    return kinks.values_jump(values, objective.parameters, model.width, model.responses)


def loss_orders(
    model: Model, order: int | None = None, parameters: Parameters | None = None
) -> tuple[Orders, ...]:
    """Return the orders of two neighbouring Gauss–Hermite rules for E Ψ, or none.

    The nodes of neighbouring rules interlace. So jumps or steep slopes give them errors of opposite
    sign. Their mean is better than either, and half their difference estimates its error.

    There are none in these cases: a response law cannot be enumerated or needs too many nodes; L is
    too large and no order (nodes per coordinate of h) is given; there are kinks. Orders are tried
    at the given a; by default at the objective's own, and at larger weights.
    """
    heads = _heads(model) if parameters is None else [parameters]
    return _orders(model, order, loss_has_kinks, model.losses, heads)


def value_orders(model: Model, values: kinks.Values, parameters: Parameters) -> tuple[Orders, ...]:
    """Return the orders of two neighbouring rules for any function of (h, y, a), or none."""
    return _orders(model, None, lambda model: _jump(model, values), values, [parameters])


def step_orders(model: Model, order: int | None = None) -> tuple[Orders, ...]:
    """Return the orders of two neighbouring rules for Ψ, g and its square, or none."""

    def values(h: Tensor, y: Tensor, parameters: Parameters) -> Tensor:
        direction = model.directions(h, y, parameters).double()
        loss = model.losses(h, y, parameters).unsqueeze(1)
        return torch.cat([loss, direction, direction.square()], 1)

    return _orders(model, order, has_kinks, values, _heads(model))


def one_time_nodes(model: Model, order: int | None, seed: int) -> Nodes:
    """Return nodes for averages at one time: of two rules where there are any, else random."""
    orders = step_orders(model, order)
    if orders:
        first, second = (quadrature_nodes(model.mixture, model.width, *order) for order in orders)
        return first.joined(second)
    return sampled_nodes(model.mixture, model.width, SAMPLES, seed)


def _heads(model: Model) -> list[Parameters]:
    """Return the head as it is, and with weights five times as large; zeros are replaced."""
    own = model.objective.parameters(torch.zeros((), dtype=torch.float64))
    return [kinks.grown(own, scale) for scale in (1.0, 5.0)[: 1 + bool(own)]]


def _orders(
    model: Model,
    order: int | None,
    kinked: Callable[[Model], bool],
    values: kinks.Values,
    heads: list[Parameters],
) -> tuple[Orders, ...]:
    nodes = ORDERS.get(model.width) if order is None else order
    if nodes is None or not can_be_enumerated(model.mixture):
        return ()
    reason = "across the kinks of this objective or g"
    responses = None
    if not kinked(model):
        reason = "for Gaussian responses, whose noise is wide for the slopes of this objective or g"
        responses = _response_order(model, nodes, values, heads)
    if responses is not None:
        return Orders(nodes, responses), Orders(nodes + 1, responses + 1)
    if order is None:
        return ()
    raise ValueError(
        f"order={order} asks for Gauss–Hermite nodes, whose error can be several percent {reason}; "
        "leave order out, and the averages are sampled"
    )


def _response_order(
    model: Model, nodes: int, values: kinks.Values, heads: list[Parameters]
) -> int | None:
    """Return the first order that agrees, or nearly agrees, with the next; None if none does."""
    width = model.width
    weighted = zip(model.mixture.weights.tolist(), model.mixture.responses, strict=True)
    laws = [law for p, law in weighted if p > 0 and is_gaussian(law)]
    least, *finer = RESPONSE_ORDERS
    if not laws:
        return least
    size = len(laws) * len(product_rule(width, nodes)[1])
    affordable = [r for r in finer if size * len(response_rule(r)[1]) <= POINTS]
    laws = sorted(laws, key=lambda law: abs(law.scale))
    laws = [laws[k] for k in sorted({round(k * (len(laws) - 1) / (LAWS - 1)) for k in range(LAWS)})]
    gaps: dict[int, float] = {}
    for order in (least, *affordable):
        pairs = ((head, law) for head in heads for law in laws)
        gap = max(_disagreement(values, head, law, width, order) for head, law in pairs)
        gaps[order] = gap
        if gap <= AGREEMENT:
            return order
    if min(gaps.values()) > LEAST_AGREEMENT:
        return None
    # finer rules do not help against rounding, such as that of a loss in float32
    return next(order for order, gap in gaps.items() if gap <= 10 * min(gaps.values()))


def _disagreement(
    values: kinks.Values, head: Parameters, law: Noisy, width: int, order: int
) -> float:
    """Return by how much means over y given h differ between two orders; infinite if not finite."""
    z = torch.randn(TRIALS, width, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z[0] = 0
    h = torch.cat([2 * z, law.mean + law.scale * z])  # of order one, and where responses are
    means, sizes = [], torch.zeros(())
    for nodes, weights in (response_rule(order), response_rule(order + 1)):
        y = (law.mean + law.scale * nodes).repeat(len(h))
        values_at = values(h.repeat_interleave(len(nodes), 0), y, head)
        values_at = values_at.reshape(len(h), len(nodes), -1)
        means.append(torch.einsum("q,hqk->hk", weights, values_at))
        sizes = torch.einsum("q,hqk->k", weights, values_at.abs()) / len(h)
    gaps = (means[0] - means[1]).abs() / sizes.clamp(min=1e-300)
    return float(gaps.nan_to_num(nan=torch.inf).max())
