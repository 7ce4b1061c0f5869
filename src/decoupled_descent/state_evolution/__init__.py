"""State evolution: training in the limit of many samples and many features."""

from decoupled_descent.state_evolution.evolution import Evolution
from decoupled_descent.state_evolution.fixed_points import (
    CriticalPoint,
    FixedPoint,
    critical_point,
    fixed_point,
)
from decoupled_descent.state_evolution.laws import MixtureLimit
from decoupled_descent.state_evolution.recursion import StateEvolution
from decoupled_descent.state_evolution.risk import (
    Estimate,
    asymptotic_test_error,
    population_test_error,
)
from decoupled_descent.state_evolution.taylor import (
    PureTaylorTerms,
    TaylorTerms,
    pure_taylor_terms,
    taylor_terms,
)

__all__ = [
    "CriticalPoint",
    "Estimate",
    "Evolution",
    "FixedPoint",
    "MixtureLimit",
    "PureTaylorTerms",
    "StateEvolution",
    "TaylorTerms",
    "asymptotic_test_error",
    "critical_point",
    "fixed_point",
    "population_test_error",
    "pure_taylor_terms",
    "taylor_terms",
]
