r"""The asymptotic test error test(m, Ω, a) (Definition "testErr"), usable alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from decoupled_descent.checks import standard_error
from decoupled_descent.objective import Objective, Parameters
from decoupled_descent.objective.kinks import Values
from decoupled_descent.theory.averages import Model, Point, Slopes
from decoupled_descent.theory.laws import (
    MixtureLaw,
    as_limit,
    check_limits,
    check_theta,
    head_parameters,
    on_cpu,
)
from decoupled_descent.theory.orders import Orders, loss_orders, one_time_nodes
from decoupled_descent.theory.populations import (
    Population,
    independent_seeds,
    quadrature_nodes,
    sampled_nodes,
)


class Value(NamedTuple):
    """A value and its standard error; under quadrature, half the difference between two orders.

    ``float(estimate)`` is the value.
    """

    value: float
    stderr: float

    def __float__(self) -> float:
        """Return the value."""
        return self.value

    @classmethod
    def of(cls, samples: list[Tensor]) -> Value:
        """Return the mean of independent values, and its standard error."""
        values = torch.stack(samples)
        return cls(float(values.mean()), float(standard_error(values)))


@on_cpu
def asymptotic_test_error(
    mixture: MixtureLaw,
    objective: Objective,
    alignment: Any,
    overlap: Any,
    head: nn.Module | Mapping[str, Tensor] | None = None,
    *,
    order: int | None = None,
    samples: int = 2**16,
    randomisations: int = 8,
    seed: int = 0,
) -> Value:
    r"""Expected loss of parameters that are given by their overlaps (Definition "testErr").

    .. math:: \mathrm{test}(m_1, \dots, m_J, \Omega, a)
              = \sum_j p_j\, E[\Psi(m_j + \check Z, Y_j, a)], \qquad \check Z \sim N(0, \Omega)

    Quadrature for L ≤ 2 (or whenever ``order`` is given), discrete or Gaussian responses and Ψ
    without kinks; otherwise random points, evenly spread. For a Gaussian response the number of
    nodes grows until two orders agree; if that takes too many, random points are used.

    Args:
        mixture: Gives p, χ and the response laws.
        objective: Ψ. Only its values are used, so the loss needs no gradient; it may be the share
            of wrong classes.
        alignment: m_j = lim μ_jᵀθ/d, shape (J, L).
        overlap: Ω = lim θᵀθ/d, shape (L, L).
        head: a, a module or its parameters by name; the objective's own by default.
        order: Gauss–Hermite nodes per coordinate, where there are no kinks.
        samples: Points in all, when sampling; a power of two.
        randomisations: Independent repetitions among them, a power of two, for the standard error.
        seed: Of the sampling.

    Returns:
        The value and its standard error.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.signalless(dimension=10)
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")
        >>> error = dd.theory.asymptotic_test_error(mixture, objective, [[0.0]], [[3.0]])
        >>> round(float(error), 12)
        1.5
    """
    at = _checked_point(mixture, objective, alignment, overlap, head)
    model = Model(objective, mixture, len(at.overlap))
    if randomisations < 2 or samples // randomisations < 4:
        raise ValueError(
            f"samples={samples} split into randomisations={randomisations} must leave at least 2 "
            "randomisations of at least 4 points"
        )
    orders = loss_orders(model, order, at.head)
    return average_over(model, model.losses, at, orders, samples, randomisations, seed)


def _checked_point(
    mixture: MixtureLaw, objective: Objective, alignment: Any, overlap: Any, head: Any
) -> Point:
    """(m, Ω, a) in float64, or ``ValueError`` if no vectors have these overlaps."""
    at = Point(as_limit(alignment), as_limit(overlap), head_parameters(objective, head))
    check_limits(mixture, at.alignment, at.overlap)
    return at


def average_over(
    model: Model,
    values: Values,
    at: Point,
    orders: tuple[Orders, ...],
    samples: int = 2**16,
    randomisations: int = 8,
    seed: int = 0,
) -> Value:
    """Average a function of (h, y, a) over new rows at a point, by two rules or by samples."""
    if orders:
        sets = [quadrature_nodes(model.mixture, model.width, *order) for order in orders]
    else:
        seeds, count = independent_seeds(seed, randomisations), samples // randomisations
        sets = [sampled_nodes(model.mixture, model.width, count, own) for own in seeds]
    means = []
    for nodes in sets:
        h = nodes.preactivations(at.alignment, at.overlap)
        with torch.no_grad():
            means.append(mean_value(values, h, nodes.population, at.head))
    return Value.of(means)


def mean_value(values: Values, h: Tensor, population: Population, parameters: Parameters) -> Tensor:
    """Average a function of (h, y, a) over a population; check its shape."""
    outcome = torch.as_tensor(values(h, population.responses, parameters))
    if outcome.shape != (len(h),):
        raise ValueError(
            f"phi returned shape {tuple(outcome.shape)} for {len(h)} rows; it must return one "
            "number per row"
        )
    return population.weights @ outcome.double()


@on_cpu
def population_test_error(
    mixture: MixtureLaw,
    objective: Objective,
    theta: Any,
    head: nn.Module | Mapping[str, Tensor] | None = None,
    **options: Any,
) -> Value:
    r"""Expected loss of trained parameters on a given mixture: the test error without test data.

    For Gaussian noise xᵀθ given the mode *is* N(μ_jᵀθ/d, θᵀθ/d), so this is exact at every d, for
    the parameters of any algorithm; for other noise laws it holds as d → ∞.

    Args:
        mixture: The mixture, with means.
        objective: Ψ.
        theta: θ, shape (L, d), such as ``run.theta``.
        head: a, such as ``run.head``; the objective's own by default.
        options: ``order``, ``samples``, ``randomisations`` and ``seed`` of
            :func:`asymptotic_test_error`.

    Returns:
        The value and its standard error.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.xor(dimension=100, snr=4.0)
        >>> X, y = mixture.sample(100, seed=0)
        >>> objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
        >>> run = dd.fit(X, y, objective, dd.GradientDescent(lr=0.05), steps=20)
        >>> error = dd.theory.population_test_error(mixture, objective, run.theta, run.head)
        >>> error.stderr < 1e-6
        True
    """
    means, theta = check_theta(mixture, theta)
    alignment, overlap = (rows @ theta.T / theta.shape[1] for rows in (means, theta))
    return asymptotic_test_error(mixture, objective, alignment, overlap, head, **options)


@on_cpu
def slopes(
    mixture: MixtureLaw,
    objective: Objective,
    alignment: Any,
    overlap: Any,
    head: nn.Module | Mapping[str, Tensor] | None = None,
    *,
    order: int | None = None,
    seed: int = 0,
) -> Slopes:
    r"""Derivatives of test(m, Ω, a) (equations "gradA" to "gradOm" of the paper).

    .. math:: \partial_{m_j} = p_j E\nabla_h\Psi, \qquad
              \partial_\Omega = \tfrac12\textstyle\sum_j p_j E\nabla_h^2\Psi, \qquad
              \partial_a = \sum_j p_j E\nabla_a\Psi

    Args:
        mixture: Gives p, χ and the response laws.
        objective: Ψ.
        alignment: m, shape (J, L).
        overlap: Ω, shape (L, L).
        head: a, a module or its parameters by name; the objective's own by default.
        order: Gauss–Hermite nodes per coordinate, where there are no kinks.
        seed: Of the points, where averages are sampled.

    Returns:
        ``alignment`` (J, L), ``curvature`` (L, L), twice the derivative in Ω, and ``head`` by name.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.signalless(dimension=10)
        >>> objective = dd.Objective(dd.heads.Linear(), "squared")
        >>> dd.theory.slopes(mixture, objective, [[0.0]], [[3.0]]).curvature
        tensor([[1.]], dtype=torch.float64)
    """
    at = _checked_point(mixture, objective, alignment, overlap, head)
    model = Model(objective, mixture, len(at.overlap), trains_head=True)
    return model.slopes(one_time_nodes(model, order, seed), at)
