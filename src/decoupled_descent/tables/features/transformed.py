"""Features from any transformer with scikit-learn's interface."""

from __future__ import annotations

from typing import Any

import numpy as np
from torch import Tensor

from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.features.kernel_map import Kernel
from decoupled_descent.tables.features.scaling import is_sparse


class Transformed(Features):
    """Linear features of the output of a scikit-learn transformer.

    A copy of the transformer is fitted without labels and weights. The columns it returns are
    scaled and made uncorrelated as linear features are; sparse results stay sparse.

    Args:
        transformer: An object with ``fit`` and ``transform``: a scaler, an encoder, a pipeline.
        landmarks: Largest number of features when the result is longer and wider than this.
        seed: Decides the start of the search for leading directions in that case.

    Example:
        >>> from sklearn.preprocessing import PolynomialFeatures
        >>> features = Transformed(PolynomialFeatures(2, include_bias=False))
        >>> features.fit_transform(np.array([[0.0], [1.0], [2.0], [3.0]])).shape
        torch.Size([4, 2])
    """

    def __init__(self, transformer: Any, landmarks: int = 2000, seed: int = 0) -> None:
        self.transformer = transformer
        self.landmarks = landmarks
        self.seed = seed

    @property
    def name(self) -> str:
        """The transformer's class."""
        return type(self.transformer).__name__

    @property
    def takes_sparse(self) -> bool:
        """Transformers get the rows as they are."""
        return True

    def width(self, n: int, d: int) -> int:
        """At most as many as landmarks: the transformer may make any number of columns."""
        return min(n, self.landmarks)

    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Tensor:
        """Fit a copy of the transformer, without weights, and the scaling of what it returns."""
        from sklearn.base import clone

        for method in ("fit", "transform"):
            if not hasattr(self.transformer, method):
                raise ValueError(f"the transformer {self.name} has no method {method!r}")
        X = _as_array(X)
        self.transformer_ = clone(self.transformer, safe=False).fit(X)
        linear = Kernel("linear", landmarks=self.landmarks, seed=self.seed)
        phi = linear.fit_transform(self._transformed(X), sample_weight=sample_weight)
        self.linear_, self.map_ = linear, linear.map_
        return phi

    def transform(self, X: Any) -> Tensor:
        """Return the features of rows in any form that the transformer takes."""
        self._check_fitted()
        return self.linear_.transform(self._transformed(_as_array(X)))

    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Raise ``ValueError``: a transformer is code, which is not saved."""
        raise ValueError(
            f"the transformer {self.name} cannot be saved; transform the rows before training, or "
            "use a kernel by its name"
        )

    def _transformed(self, X: Any) -> Any:
        """Call the transformer and check what it returns."""
        result = _as_array(self.transformer_.transform(X))
        result = result if is_sparse(result) else np.asarray(result)
        n = X.shape[0] if hasattr(X, "shape") else len(X)
        if result.ndim != 2 or result.shape[0] != n:
            raise ValueError(
                f"the transformer {self.name} returned shape {result.shape} for {n} rows; it must "
                "return one row of features per row of X"
            )
        entries: Any = result.data if is_sparse(result) else result
        if entries.dtype.kind not in "biuf":
            raise ValueError(f"the transformer {self.name} returned {entries.dtype}, not numbers")
        bad = int((~np.isfinite(entries)).sum())
        if bad:
            raise ValueError(
                f"the transformer {self.name} returned {bad} entries that are NaN or infinite"
            )
        return result


def _as_array(X: Any) -> Any:
    """Give tensors to other libraries as NumPy arrays; leave everything else as it is."""
    return X.detach().cpu().numpy() if isinstance(X, Tensor) else X
