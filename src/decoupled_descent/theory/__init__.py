"""Everything a theorist needs, in one namespace: ``from decoupled_descent import theory``.

Predictions
    :class:`StateEvolution` predicts a run; its result is an :class:`Evolution`.
Mixtures
    :class:`MixtureLimit` is a mixture given by its overlaps only, :func:`teacher` turns labels
    from a teacher into a mixture.
Test errors
    :func:`asymptotic_test_error` from overlaps, :func:`population_test_error` from trained
    parameters; both return an :class:`Value`.
Where runs end
    :func:`fixed_point` and :func:`critical_point` return a :class:`FixedPoint` and a
    :class:`CriticalPoint`.
What drives the error
    :func:`slopes` differentiates the test error in its overlaps (:class:`Slopes`);
    :func:`taylor_terms` and :func:`pure_taylor_terms` return :class:`TaylorTerms` and
    :class:`PureTaylorTerms`.
Finite rows
    :func:`finite_size` says how far a run may be from its limit (:class:`FiniteSize`),
    :func:`amp_form` writes a run as message passing (:class:`AmpPath`).
Without a signal
    :func:`signalless_overlap` and :func:`signalless_growth` are closed forms.
Which algorithm to train with
    :func:`rank_directions` ranks directions and rates by their limits, as
    :class:`RankedDirections` of :class:`PredictedAlgorithm` s.
For algorithms of your own
    :class:`LimitStep` is what the ``limit()`` of an algorithm returns, :func:`ridge_step` gives the
    limits of a preconditioned step as a :class:`RidgeStep`.
"""

from decoupled_descent.descent.info import LimitStep
from decoupled_descent.theory.amp import AmpPath, amp_form
from decoupled_descent.theory.averages import Slopes
from decoupled_descent.theory.directions import (
    PredictedAlgorithm,
    RankedDirections,
    rank_directions,
)
from decoupled_descent.theory.evolution import Evolution
from decoupled_descent.theory.finite_size import FiniteSize, finite_size
from decoupled_descent.theory.fixed_points import (
    CriticalPoint,
    FixedPoint,
    critical_point,
    fixed_point,
)
from decoupled_descent.theory.laws import MixtureLimit
from decoupled_descent.theory.ridge import RidgeStep, ridge_step, teacher
from decoupled_descent.theory.risk import (
    Value,
    asymptotic_test_error,
    population_test_error,
    slopes,
)
from decoupled_descent.theory.signalless import signalless_growth, signalless_overlap
from decoupled_descent.theory.state_evolution import StateEvolution
from decoupled_descent.theory.taylor import (
    PureTaylorTerms,
    TaylorTerms,
    pure_taylor_terms,
    taylor_terms,
)

__all__ = [
    "AmpPath",
    "CriticalPoint",
    "Evolution",
    "FiniteSize",
    "FixedPoint",
    "LimitStep",
    "MixtureLimit",
    "PredictedAlgorithm",
    "PureTaylorTerms",
    "RankedDirections",
    "RidgeStep",
    "Slopes",
    "StateEvolution",
    "TaylorTerms",
    "Value",
    "amp_form",
    "asymptotic_test_error",
    "critical_point",
    "finite_size",
    "fixed_point",
    "population_test_error",
    "pure_taylor_terms",
    "rank_directions",
    "ridge_step",
    "signalless_growth",
    "signalless_overlap",
    "slopes",
    "taylor_terms",
    "teacher",
]
