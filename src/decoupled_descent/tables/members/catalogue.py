"""Which members a search trains beside the Newton fits, and members from files."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from decoupled_descent.tables.members.any_estimator import AnyEstimator, EstimatorRecipe
from decoupled_descent.tables.members.boosting import FEWEST, Boosting, BoostingRecipe
from decoupled_descent.tables.members.constant import Constant, ConstantRecipe
from decoupled_descent.tables.members.forest import Forest
from decoupled_descent.tables.members.gaussian_classes import GAUSSIANS, GaussianClasses
from decoupled_descent.tables.members.growing import FORESTS
from decoupled_descent.tables.members.interface import Member, Recipe
from decoupled_descent.tables.members.sparse_linear import SparseLinear, SparseRecipe

#: All kinds of members, by the name that files have. A new one is a file and a line here.
KINDS: dict[str, type[Member]] = {
    one.kind: one
    for one in (Forest, Boosting, GaussianClasses, SparseLinear, Constant, AnyEstimator)
}
#: Recipes that users choose by name.
RECIPES: dict[str, Recipe] = {
    one.name: one
    for one in (*FORESTS, *GAUSSIANS, SparseRecipe(), BoostingRecipe(), ConstantRecipe())
}
#: What ``"auto"`` trains.
AUTO: tuple[Recipe, ...] = (
    *(one._replace(only_useful=True) for one in FORESTS),
    *GAUSSIANS,
    SparseRecipe(only_wide=True),
    BoostingRecipe(fewest=FEWEST),
    ConstantRecipe(),
)


def as_recipes(spec: Any, default: bool) -> list[Recipe]:
    """Turn a description of members into recipes.

    Args:
        spec: ``"auto"``: all that have a name, sparse linear models for wide tables only, if
            ``default`` is true, else none; or a list of names and estimators of scikit-learn.
        default: Whether ``"auto"`` trains any.

    Example:
        >>> [one.name for one in as_recipes(["extra trees", "naive Bayes"], True)]
        ['extra trees', 'naive Bayes']
        >>> as_recipes([], True)
        []
    """
    if isinstance(spec, str) and spec == "auto":
        return list(AUTO) if default else []
    if not isinstance(spec, (list, tuple)):
        raise ValueError(f"members={spec!r} must be 'auto' or a list; {_choices()}")
    return [_recipe(one) for one in spec]


def _recipe(one: Any) -> Recipe:
    if isinstance(one, str) and one in RECIPES:
        return RECIPES[one]
    if hasattr(one, "fit") and hasattr(one, "predict") and not isinstance(one, type):
        return EstimatorRecipe(one)
    raise ValueError(
        f"members has {one!r:.60}, which is not one of {_choices()}, or an estimator of "
        "scikit-learn"
    )


def _choices() -> str:
    return ", ".join(map(repr, RECIPES))


def restore_member(settings: Any, tensors: dict[str, Tensor], width: int) -> Member:
    """Make a member again from its ``state()``, or raise ``ValueError``."""
    kind = settings["kind"]
    if kind not in KINDS:
        raise ValueError(f"its member {kind!r:.40} does not exist; update decoupled-descent")
    return KINDS[kind].restore(settings, tensors, width)
