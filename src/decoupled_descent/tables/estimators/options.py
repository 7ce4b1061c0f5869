"""The options of both estimators."""

from __future__ import annotations

from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal

from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state

from decoupled_descent.tables.search.deadline import check_time_limit

#: A number, or ``"auto"`` to have it chosen.
Setting = float | Literal["auto"]


@dataclass(eq=False, repr=False, kw_only=True)
class Options(BaseEstimator):
    """The options of both estimators, which explain them."""

    features: Any = "auto"
    stack: bool = True
    members: Any = "auto"
    time_limit: float | None = None
    ridge: Setting = "auto"
    random_state: Any = 0
    verbose: bool = False
    plain_columns: Any = ()
    time_columns: dict[str, int] | None = None

    def _seed(self) -> int:
        """A seed, drawn from ``random_state``."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    @property
    def _usual_features(self) -> bool:
        """Whether the choice of features is left to the estimator."""
        return isinstance(self.features, str) and self.features == "auto"

    def _check_options(self) -> None:
        """Raise ``ValueError`` for a wrong ridge or time limit."""
        number = isinstance(self.ridge, Real) and not isinstance(self.ridge, bool)
        if not number and not (isinstance(self.ridge, str) and self.ridge == "auto"):
            raise ValueError(f"ridge={self.ridge!r} must be a number or 'auto'")
        check_time_limit(self.time_limit)
