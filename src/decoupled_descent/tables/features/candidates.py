"""Feature maps from names, kernel functions and transformers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.features.kernel_map import Kernel
from decoupled_descent.tables.features.kernels import KERNELS
from decoupled_descent.tables.features.levels import Levels
from decoupled_descent.tables.features.shared import TrainingRows
from decoupled_descent.tables.features.transformed import Transformed

#: What ``"auto"`` tries. Each of these was the best on some real table.
AUTO = (
    *("linear", "linear/ranks", "poly2(1)", "arccos(1)", "rbf(0.6)", "rbf(1)"),
    *("matern(0.6)", "matern(1)", "matern(2)", "matern(4)", "matern(2)/ranks"),
    *("laplace1(0.5)", "laplace1(1)", "laplace1(2)", "laplace1(1)/ranks", "laplace1(4)/ranks"),
    *("linear/levels", "laplace1(0.5)/levels", "laplace1(1)/levels", "laplace1(2)/levels"),
    "rbf(1)/levels",
)
#: All feature maps, by the name that files have. A new one is a file and a line here.
MAPS: dict[str, type[Features]] = {one.__name__: one for one in (Kernel, Levels, Transformed)}


def as_features(spec: Any) -> list[Features]:
    """Turn a description of features into the feature maps to try.

    Args:
        spec: ``"auto"``; the name of a kernel, with or without a scale and ranks (``"rbf"``,
            ``"rbf(0.5)"``, ``"matern(2)/ranks"``); a kernel function ``k(A, B)``; a scikit-learn
            transformer; a feature map; or a list of these.

    Returns:
        New, unfitted feature maps, at least one.

    Example:
        >>> as_features("matern(2)/ranks")
        [Kernel(kind='matern', scale=2.0, ranks=True)]
        >>> [features.name for features in as_features(["linear", "rbf"])]
        ['linear', 'rbf(1)']
    """
    if isinstance(spec, str):
        return [_named(name) for name in AUTO] if spec == "auto" else [_named(spec)]
    if isinstance(spec, Features):
        return [type(spec)(**spec.get_params())]
    if isinstance(spec, (list, tuple)) and spec:
        return [features for part in spec for features in as_features(part)]
    if hasattr(spec, "fit") and hasattr(spec, "transform") and not isinstance(spec, type):
        return [Transformed(spec)]
    if callable(spec) and not isinstance(spec, type):
        return [Kernel(spec)]
    raise ValueError(
        f"features={spec!r} must be 'auto', the name of a kernel ({', '.join(KERNELS)}), a kernel "
        "function k(A, B), a transformer with fit and transform, or a list of these"
    )


def fit_all(
    maps: Iterable[Features], X: Any, sample_weight: Any = None
) -> Iterator[tuple[Features, Tensor]]:
    """Fit feature maps to the same rows one after the other; kernels share scales and distances.

    Yields each fitted map with the features of the training rows.
    """
    training = TrainingRows(X, sample_weight)
    for features in maps:
        yield features, features.fit_shared(training)


def restore(settings: dict[str, Any], tensors: dict[str, Tensor]) -> Features:
    """Make a fitted map again from its ``state()``: settings without a class are a kernel's."""
    name = settings.get("map", Kernel.__name__)
    if name not in MAPS:
        raise ValueError(f"the feature map {name!r:.40} does not exist; update decoupled-descent")
    return MAPS[name].restore(settings, tensors)


def _named(name: str) -> Features:
    """The feature map of a name."""
    for one in MAPS.values():
        features = one.from_name(name)
        if features is not None:
            return features
    raise ValueError(
        f"features={name!r} must be 'auto' or the name of a kernel ({', '.join(KERNELS)}), "
        "with a scale and ranks if wanted: 'rbf(0.5)', 'matern(2)/ranks'"
    )
