"""Feature maps from names, kernel functions and transformers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from torch import Tensor

from decoupled_descent.features.interface import Features
from decoupled_descent.features.kernel_map import Kernel
from decoupled_descent.features.kernels import KERNELS
from decoupled_descent.features.shared import Training
from decoupled_descent.features.transformed import Transformed

#: What ``"auto"`` tries. Each of these was the best on some real table.
AUTO = (
    *("linear", "linear/ranks", "poly2(1)", "arccos(1)", "rbf(0.6)", "rbf(1)"),
    *("matern(0.6)", "matern(1)", "matern(2)", "matern(4)", "matern(2)/ranks"),
    *("laplace1(0.5)", "laplace1(1)", "laplace1(2)", "laplace1(1)/ranks", "laplace1(4)/ranks"),
)
_NAME = re.compile(r"(?P<kind>\w+)(?:\((?P<scale>[^()]+)\))?(?P<ranks>/ranks)?")


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
    candidates: Iterable[Features], X: Any, sample_weight: Any = None
) -> Iterator[tuple[Features, Tensor]]:
    """Fit feature maps to the same rows one after the other; kernels share scales and distances.

    Yields each fitted map with the features of the training rows.
    """
    training: Training | None = None
    for features in candidates:
        if isinstance(features, Kernel):
            training = training or Training(X, sample_weight)
            yield features, features.fit_shared(training)
        else:
            yield features, features.fit_transform(X, sample_weight=sample_weight)


def _named(name: str) -> Kernel:
    """Read ``kind(scale)/ranks``."""
    match = _NAME.fullmatch(name)
    if match is None or match["kind"] not in KERNELS:
        raise ValueError(
            f"features={name!r} must be 'auto' or the name of a kernel ({', '.join(KERNELS)}), "
            "with a scale and ranks if wanted: 'rbf(0.5)', 'matern(2)/ranks'"
        )
    try:
        scale = float(match["scale"] or 1)
    except ValueError:
        raise ValueError(f"features={name!r}: the scale must be a number") from None
    kernel = Kernel(match["kind"], scale, match["ranks"] is not None)
    kernel.check()
    return kernel
