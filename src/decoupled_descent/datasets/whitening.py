r"""Standardise, whiten and scale to variance 1/d, as the paper's theory assumes it.

Section sec:embedding of the paper has three ways, all after standardising by train statistics::

    Whitening("vanilla").fit(X)  # x ↦ x/√d
    Whitening("zca").fit(X)  # x ↦ x W/√d, W = Σ^{−1/2} of the train rows
    Whitening("zca").fit(X, pool=X_test)  # joint: Σ of the train and test rows together
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import check_is_fitted, validate_data

METHODS = ("vanilla", "zca")

Floats = NDArray[np.floating[Any]]


class Whitening(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    r"""Standardise the columns, decorrelate them (``"zca"``), and divide by √d.

    .. math::
       X' = \tfrac{1}{\sqrt d}\,\frac{X - \mathrm{mean}}{\mathrm{sd}}\,W, \qquad
       W = V\Lambda^{-1/2}V^\top \text{ for } \Sigma = \tfrac{1}{N-1} Z^\top Z = V\Lambda V^\top

    Z holds the standardised rows, followed by those of the pool if there is one. For ``"vanilla"``,
    W is the identity. Directions in which Z does not vary get weight zero instead of infinity, and
    constant columns become zero.

    Args:
        method: ``"vanilla"`` or ``"zca"``.
        tolerance: Eigenvalues up to this fraction of the largest count as zero; by default
            max(n, d) times the rounding error of float64.

    Attributes:
        mean_: Column means of the train rows.
        scale_: Their standard deviations, 1 for constant columns.
        whitening_: W, shape (d, d); None for ``"vanilla"``.
        dewhitening_: The (pseudo-)inverse of W; None for ``"vanilla"``.
        rank_: The number of directions that were whitened; d for ``"vanilla"``.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(50, 3)) @ np.triu(np.ones((3, 3)))
        >>> white = Whitening("zca").fit_transform(X)
        >>> np.allclose(np.cov(white.T) * 3, np.eye(3))
        True

    Paper: Section sec:embedding.
    """

    def __init__(self, method: str = "zca", tolerance: float | None = None) -> None:
        self.method = method
        self.tolerance = tolerance

    def fit(self, X: ArrayLike, y: Any = None, pool: ArrayLike | None = None) -> Self:
        """Learn means, deviations and W.

        Args:
            X: Train rows, shape (n, d).
            y: Not used.
            pool: Further rows, such as the test rows, that enter the covariance but not the means
                and deviations: joint ZCA.
        """
        if self.method not in METHODS:
            raise ValueError(f"method={self.method!r} must be one of {', '.join(METHODS)}")
        if self.tolerance is not None and not 0 <= self.tolerance < 1:
            raise ValueError(f"tolerance={self.tolerance!r} must lie in [0, 1)")
        rows = validate_data(self, X, dtype=np.float64, ensure_min_samples=2)
        scaler = StandardScaler().fit(rows)
        self.mean_, self.scale_ = scaler.mean_, scaler.scale_
        self.whitening_, self.dewhitening_, self.rank_ = None, None, rows.shape[1]
        if self.method == "vanilla":
            return self
        if pool is not None:
            more = validate_data(self, pool, dtype=np.float64, reset=False)
            rows = np.concatenate([rows, more])
        standard = (rows - self.mean_) / self.scale_
        count, d = standard.shape
        eigenvalues, V = np.linalg.eigh(standard.T @ standard / (count - 1))
        rounding = max(count, d) * np.finfo(np.float64).eps
        tolerance = rounding if self.tolerance is None else self.tolerance
        kept = eigenvalues > max(tolerance * eigenvalues[-1], 0.0)
        V, roots = V[:, kept], np.sqrt(eigenvalues[kept])
        self.whitening_ = (V / roots) @ V.T
        self.dewhitening_ = (V * roots) @ V.T
        self.rank_ = int(kept.sum())
        return self

    def transform(self, X: ArrayLike) -> Floats:
        """Apply what was learnt.

        Args:
            X: Rows, shape (m, d).

        Returns:
            Rows of noise variance 1/d, in the precision of X.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        white = (rows.astype(np.float64) - self.mean_) / self.scale_
        if self.whitening_ is not None:
            white = white @ self.whitening_
        result: Floats = (white / white.shape[1] ** 0.5).astype(rows.dtype)
        return result

    def inverse_transform(self, X: ArrayLike) -> Floats:
        """Undo :meth:`transform`.

        Args:
            X: Transformed rows, shape (m, d).

        Returns:
            The original rows, with the mean in directions in which the fitted rows did not vary.
        """
        check_is_fitted(self)
        rows = validate_data(self, X, dtype=(np.float64, np.float32), reset=False)
        original = rows.astype(np.float64) * rows.shape[1] ** 0.5
        if self.dewhitening_ is not None:
            original = original @ self.dewhitening_
        result: Floats = (original * self.scale_ + self.mean_).astype(rows.dtype)
        return result
