"""The methods of training that users choose by name, without the algorithms behind them.

Nothing slow is imported, so that the command line can answer wrong options at once.
``training/sweeps/methods.py`` adds the algorithms.
"""

from __future__ import annotations

from typing import NamedTuple

#: Every setting that some method has.
SETTINGS = ("lr", "damping", "ridge")
#: The methods that ``"auto"`` chooses from: leave-one-out at the minimum, or a descent.
AT_MINIMUM, BY_DESCENT = "newton", "orthogonal"


class MethodName(NamedTuple):
    """What is true of a method.

    Attributes:
        settings: Which of lr, damping and ridge it has.
        summary: What it is, in one line.
        minimises: Whether it reaches the minimum, so that rows can be left out of it; otherwise it
            makes steps.
    """

    settings: tuple[str, ...]
    summary: str
    minimises: bool = False


METHOD_NAMES = {
    AT_MINIMUM: MethodName(
        ("ridge",), "linear and kernel models, with leave-one-out errors", minimises=True
    ),
    BY_DESCENT: MethodName(SETTINGS, "decoupled descent, for columns of any covariance"),
    "decoupled": MethodName(("lr", "damping"), "decoupled descent of the paper, for white noise"),
    "gradient": MethodName(
        ("lr",), "gradient descent; its train error does not estimate the test error"
    ),
}
