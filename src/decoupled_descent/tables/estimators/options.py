"""The options of both estimators, and the method that they imply."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from torch import nn

from decoupled_descent.method_names import AT_MINIMUM, BY_DESCENT, SETTINGS
from decoupled_descent.training.sweeps.methods import check_method
from decoupled_descent.training.sweeps.tuning import Setting, check_settings, check_used

#: Options of networks, and those of networks and descents: with other values of these than their
#: defaults, ``"auto"`` means a descent.
NETWORK = ("hidden", "activation", "head", "warm_start")
DESCENT = (*NETWORK, "lr", "damping", "max_iter", "early_stopping", "device")


@dataclass(eq=False, repr=False)
class Options(BaseEstimator):
    """The options of both estimators, which explain them."""

    hidden: int | tuple[int, ...] | str = "auto"
    activation: str = "tanh"
    _: KW_ONLY
    head: nn.Module | None = None
    method: str = "auto"
    features: Any = "auto"
    stack: bool = True
    members: Any = "auto"
    time_limit: float | None = None
    lr: Setting = "auto"
    damping: Setting = "auto"
    ridge: Setting = "auto"
    max_iter: int = 500
    early_stopping: bool = True
    warm_start: bool = False
    random_state: Any = 0
    device: str = "cpu"
    verbose: bool = False
    plain_columns: Any = ()
    time_columns: dict[str, int] | None = None

    def _changed(self, *names: str) -> list[str]:
        """Those of these options that differ from their defaults, in value or type."""
        pairs = [(name, getattr(self, name), getattr(Options, name)) for name in names]
        return [k for k, given, usual in pairs if type(given) is not type(usual) or given != usual]

    def _seed(self) -> int:
        """A seed, drawn from ``random_state``."""
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _chosen_method(self) -> str:
        """The method. "auto" is Newton's, unless an option of networks or descents is given.

        With class weights it is always Newton's, because no other method supports them.
        """
        if self.method != "auto":
            check_method(self.method)
            return str(self.method)
        if getattr(self, "class_weight", None) is not None:
            return AT_MINIMUM
        return BY_DESCENT if self._changed(*DESCENT) else AT_MINIMUM

    def _check_settings(self, method: str) -> None:
        """Raise ``ValueError`` for settings that are not numbers, or that have no effect."""
        settings = {name: getattr(self, name) for name in SETTINGS}
        check_settings(method, settings)
        check_used(method, settings)
