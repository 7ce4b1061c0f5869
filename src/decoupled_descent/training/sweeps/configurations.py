"""The configurations of a sweep: every combination, named by its differences from the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from numbers import Integral
from typing import Any, NamedTuple

from torch import Tensor

from decoupled_descent.descent.common import Algorithm, check_algorithm
from decoupled_descent.objective import BoundObjective, Objective
from decoupled_descent.objective.objective import require_objective


class Configuration(NamedTuple):
    """One run of a sweep before it starts."""

    name: str
    objective: Objective | BoundObjective
    algorithm: Algorithm
    theta: Tensor | None
    seed: int


def combine(
    objective: Any, algorithms: Any, theta: Any, seed: int | Sequence[int]
) -> list[Configuration]:
    """Return every combination, named by its differences from the others."""
    for algorithm in _each(algorithms):
        check_algorithm(algorithm)
    for each in _each(objective):
        require_objective(each)
    objectives, methods = _named(objective, _head_names), _named(algorithms, _algorithm_names)
    seeds = list(seed) if isinstance(seed, Iterable) else [seed]
    if not all(isinstance(each, Integral) for each in seeds):
        raise ValueError(f"seed={seed!r} must be a whole number, or several in a list")
    if not (objectives and methods and seeds):
        raise ValueError("a sweep needs at least one objective, one algorithm and one seed")
    thetas = list(theta) if isinstance(theta, list | tuple) else [theta] * len(objectives)
    if len(thetas) != len(objectives):
        raise ValueError(
            f"theta has {len(thetas)} entries for {len(objectives)} objectives; give one each"
        )
    configurations = []
    for ((head, psi), start), (method, algorithm), s in product(
        zip(objectives, thetas, strict=True), methods, seeds
    ):
        parts = [head] * (len(objectives) > 1) + [method] * (len(methods) > 1)
        parts += [f"seed={s}"] * (len(seeds) > 1)
        name = ", ".join(parts) or method
        configurations.append(Configuration(name, psi, algorithm, start, int(s)))
    return configurations


def _named(given: Any, describe: Callable[[Sequence[Any]], list[str]]) -> list[tuple[str, Any]]:
    if isinstance(given, Mapping):
        return list(given.items())
    names = describe(_each(given))
    varying = [n if names.count(n) == 1 else f"{n} #{k}" for k, n in enumerate(names)]
    return list(zip(varying, _each(given), strict=True))


def _each(given: Any) -> list[Any]:
    """Return a mapping, a sequence or a single object as a list."""
    if isinstance(given, Mapping):
        return list(given.values())
    several = isinstance(given, Sequence) and not isinstance(given, str)
    return list(given) if several else [given]


def _head_names(objectives: Sequence[Objective]) -> list[str]:
    pairs = [(type(objective.head).__name__, objective.width) for objective in objectives]
    return [name if width is None else f"{name} L={width}" for name, width in pairs]


def _algorithm_names(algorithms: Sequence[Algorithm]) -> list[str]:
    """Name algorithms by the options in which they differ, and by their kind if that differs."""
    given = [algorithm.settings for algorithm in algorithms]
    keys = dict.fromkeys(key for each in given for key in each)
    varying = [key for key in keys if len({each.get(key) for each in given}) > 1]
    kinds = [type(algorithm).__name__ for algorithm in algorithms]
    existing = {(kind, key) for kind, each in zip(kinds, given, strict=True) for key in each}
    names = []
    for kind, each in zip(kinds, given, strict=True):
        parts = [kind] * (len(set(kinds)) > 1 or not varying)
        for key in varying:
            if (kind, key) in existing:
                parts.append(f"{key}={each[key]:g}" if key in each else f"{key}=None")
        names.append(" ".join(parts) or kind)
    return names
