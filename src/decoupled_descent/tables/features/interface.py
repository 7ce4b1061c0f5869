"""The interface of feature maps: scikit-learn's, without importing scikit-learn."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from typing import Any, Self

from torch import Tensor

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.sources import Source
from decoupled_descent.tables.features.decomposition import FeatureMap
from decoupled_descent.tables.features.shared import TrainingRows


class Features(ABC):
    """What all feature maps have: scikit-learn's interface, without importing scikit-learn."""

    map_: FeatureMap

    @property
    @abstractmethod
    def name(self) -> str:
        """Short name for tables of candidates."""

    @property
    @abstractmethod
    def takes_sparse(self) -> bool:
        """Whether it uses sparse matrices as they are."""

    @property
    def is_linear(self) -> bool:
        """Whether the features are the columns themselves; such maps are always fitted."""
        return False

    @property
    def learnt_sparse(self) -> bool:
        """Whether the map was learnt from a sparse matrix."""
        return False

    @classmethod
    def from_name(cls, name: str) -> Self | None:  # noqa: ARG003
        """The map of a name that users write; None if it is not one of this class."""
        return None

    @classmethod
    def restore(cls, settings: dict[str, Any], tensors: dict[str, Tensor]) -> Self:  # noqa: ARG003
        """Make a fitted map again from its :meth:`state`, or raise ``ValueError``."""
        raise ValueError(f"a file cannot contain a {cls.__name__}; train the model again")

    def suits(self, X: Any) -> bool:
        """Whether the map differs from simpler ones on these rows; else "auto" leaves it out."""
        return True

    def width(self, n: int, d: int) -> int:
        """The largest number of features of n rows with d columns."""
        return min(n, d)

    def limit_width(self, n: int, most: int) -> None:
        """Use at most ``most`` landmarks for n rows, if the map has them."""
        landmarks = self.get_params().get("landmarks", n)
        if n > most:
            self.set_params(landmarks=min(landmarks, most))

    @abstractmethod
    def fit_transform(self, X: Any, y: Any = None, sample_weight: Any = None) -> Tensor:
        """Learn the map and return the features of the training rows.

        Args:
            X: Rows, shape (n, d).
            y: Ignored.
            sample_weight: Weight of every row, shape (n,); all 1 by default.

        Returns:
            Features, shape (n, r), float64.
        """

    @abstractmethod
    def transform(self, X: Any) -> Tensor:
        """Return the features of rows, shape (m, r), float64."""

    @abstractmethod
    def state(self) -> tuple[dict[str, Any], dict[str, Tensor]]:
        """Return plain settings and tensors, for a file; refuse what no file can hold."""

    def fit_rows(self, X: Any, sample_weight: Any = None) -> Tensor | Source:
        """Learn the map from a matrix or :class:`Rows`; return the features, or their source."""
        return self.fit_transform(X.X if isinstance(X, Rows) else X, sample_weight=sample_weight)

    def fit_shared(self, training: TrainingRows) -> Tensor:
        """Learn the map from rows that several maps share, and return their features."""
        return self.fit_transform(training.given, sample_weight=training.sample_weight)

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learn the map; ``y`` is ignored."""
        self.fit_transform(X, y, sample_weight)
        return self

    @classmethod
    def parameter_names(cls) -> list[str]:
        """Names of the constructor's arguments."""
        return list(inspect.signature(cls).parameters)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments of the constructor by name, as scikit-learn wants them."""
        return {name: getattr(self, name) for name in self.parameter_names()}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor."""
        for name, value in params.items():
            if name not in self.parameter_names():
                raise ValueError(f"{type(self).__name__} has no parameter {name!r}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        changed = (
            f"{name}={getattr(self, name)!r}"
            for name, parameter in inspect.signature(type(self)).parameters.items()
            if getattr(self, name) != parameter.default
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "map_")

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import InputTags, Tags, TargetTags, TransformerTags

        return Tags(
            estimator_type=None,
            target_tags=TargetTags(required=False),
            transformer_tags=TransformerTags(),
            input_tags=InputTags(sparse=True),
        )

    def _check_fitted(self) -> None:
        if not hasattr(self, "map_"):
            raise ValueError(f"{type(self).__name__} is not fitted; call fit first")
