"""Checks of single arguments, the one interval, and the one way to write percentages and texts."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable
from enum import StrEnum
from numbers import Integral, Real
from typing import Any

#: 97.5 % quantile of the normal law: a 95 % interval is estimate ± Z95 standard errors.
Z95 = 1.959963984540054
#: Verdicts on an estimate, from good to bad.
VERDICTS = ("trust", "caution", "do not trust")
#: Up to this many different whole numbers are classes, for the estimators and for tables …
LIKELY_CLASSES = 20
#: … and more of them only if each has this many rows on average.
ROWS_PER_CLASS = 10
#: Control characters of terminals, and characters that reverse the direction of text.
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")


class Target(StrEnum):
    """What a model predicts, by the name that users give it."""

    CLASSES = "classification"
    NUMBERS = "regression"
    COUNTS = "counts"
    PROPORTIONS = "proportions"
    GRADES = "grades"

    @property
    def has_classes(self) -> bool:
        """Whether classes are predicted, not numbers."""
        return self in (Target.CLASSES, Target.GRADES)

    @property
    def roots(self) -> bool:
        """Whether errors are squares, of which the roots are shown."""
        return self is Target.NUMBERS

    @property
    def options(self) -> dict[str, Any]:
        """Options of the estimator for it."""
        options: dict[Target, dict[str, Any]] = {
            Target.COUNTS: {"loss": "poisson"},
            Target.PROPORTIONS: {"loss": "proportion"},
            Target.GRADES: {"ordered": True},
        }
        return options.get(self, {})

    @property
    def score(self) -> str:
        """The name of the estimated score."""
        return "estimated_accuracy_" if self.has_classes else "estimated_r2_"


def standard_error(values: Any) -> Any:
    """The standard error of the mean of an array or a tensor, over its first axis.

    Example:
        >>> import numpy as np
        >>> round(float(standard_error(np.array([1.0, 2.0, 3.0]))), 4)
        0.5774
    """
    n, largest = len(values), abs(values).max()
    size = largest if largest > 0 else 1.0  # so that squares do not overflow
    deviations = (values - values.mean(0)) / size
    return size * ((deviations * deviations).sum(0) / (n * (n - 1))) ** 0.5


def whole_number(name: str, value: Any, least: int = 1, most: int | None = None) -> int:
    """Return a whole number as an ``int``, or raise ``ValueError`` that says what is allowed.

    Example:
        >>> whole_number("steps", 3)
        3
        >>> whole_number("steps", 0)
        Traceback (most recent call last):
        ValueError: steps=0 must be a whole number of at least 1
    """
    fits = isinstance(value, Integral) and not isinstance(value, bool)
    if not fits or value < least or (most is not None and value > most):
        limit = "" if most is None else f" and at most {most}"
        raise ValueError(f"{name}={value!r} must be a whole number of at least {least}{limit}")
    return int(value)


def is_finite_number(value: Any) -> bool:
    """Whether a value is a finite real number, and not a truth value."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def real_number(name: str, value: Any) -> float:
    """Return a finite number as a ``float``, or raise ``ValueError``.

    Example:
        >>> real_number("lr", "fast")
        Traceback (most recent call last):
        ValueError: lr='fast' must be a finite number
    """
    if not is_finite_number(value):
        raise ValueError(f"{name}={value!r} must be a finite number")
    return float(value)


def verdict_of(statuses: Iterable[str]) -> str:
    """Return the verdict of the most serious status of all checks.

    Example:
        >>> verdict_of(["ok", "alarm", "note"]), verdict_of(["caution"]), verdict_of([])
        ('do not trust', 'caution', 'trust')
    """
    found = set(statuses)
    return VERDICTS[2 if "alarm" in found else int("caution" in found)]


def interval(estimate: float, stderr: float) -> tuple[float, float]:
    """Return the 95 % interval of an estimate with a normal error.

    Example:
        >>> interval(1.0, 0.5)
        (0.020018..., 1.97998...)
    """
    return estimate - Z95 * stderr, estimate + Z95 * stderr


def error_interval(error: float, stderr: float) -> tuple[float, float]:
    r"""Return the 95 % interval of a mean of losses, which are positive and have a long tail.

    .. math:: (\sqrt{e} \pm 1.96\, s / (2 \sqrt{e}))^2

    A mean of losses is skewed, and intervals around the mean itself miss large errors more often
    than small ones. Its root is nearly symmetric: that of squared errors is in the units of the
    target, that of a count of rare mistakes has a variance that does not depend on the count.

    Example:
        >>> error_interval(1.0, 0.2), interval(1.0, 0.2)
        ((0.646..., 1.430...), (0.608..., 1.391...))
    """
    if not error > 0:
        return interval(error, stderr)
    half = Z95 * stderr / error / 2
    return error * max(0.0, 1 - half) ** 2, error * (1 + half) ** 2


def share_interval(share: float, stderr: float) -> tuple[float, float]:
    r"""Return the 95 % interval of a share of rows, such as an accuracy, from its standard error.

    The standard error is that of Agresti and Coull for m rows, √(p̃(1 − p̃)/(m + 4)) with p̃ = (m p +
    2)/(m + 4). The interval is Jeffreys' for m rows: quantiles of a beta distribution with half a
    row of each kind added. If all m rows agree, it is that of Clopper and Pearson.

    Example:
        >>> [round(end, 3) for end in share_interval(0.5, 0.0490)]  # 100 rows
        [0.403, 0.597]
        >>> [round(end, 3) for end in share_interval(1.0, 0.0170)]  # 80 rows, all right
        [0.954, 1.0]
    """
    from scipy.special import betaincinv

    rows = _rows_behind_share(share, stderr)
    ends = [
        float(betaincinv(rows * share + 0.5, rows * (1 - share) + 0.5, tail))
        for tail in (0.025, 0.975)
    ]
    reach = 0.025 ** (1 / rows)  # all of m rows agree with this probability at the far end
    if rows * share < 0.5:
        return 0.0, max(ends[1], 1 - reach)
    if rows * (1 - share) < 0.5:
        return min(ends[0], reach), 1.0
    return ends[0], ends[1]


def _rows_behind_share(share: float, stderr: float) -> float:
    """m, the number of rows at which a share has this standard error, by bisection of log m."""

    def error(rows: float) -> float:
        towards = (rows * share + 2) / (rows + 4)
        return math.sqrt(towards * (1 - towards) / (rows + 4))

    low, high = 1e-3, 1e15
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if error(middle) > stderr else (low, middle)
    return low


def counted(count: int, what: str) -> str:
    """Write a number of things.

    Example:
        >>> counted(1, "row"), counted(1200, "row")
        ('1 row', '1,200 rows')
    """
    return f"{count:,} {what}{'s' * (count != 1)}"


def percent(part: Any, whole: Any = 1, decimals: int = 1) -> str:
    """Write a share as a percentage, or a dash if the whole is 0.

    The space before the sign is a no-break space: a line never ends between the two.

    Example:
        >>> percent(0.5, decimals=0) == "50\N{NO-BREAK SPACE}%", percent(1, 0)
        (True, '–')
    """
    return f"{100 * part / whole:.{decimals}f}\N{NO-BREAK SPACE}%" if whole else "–"


def unbroken(text: str) -> str:
    """Put a no-break space between a number and the per cent sign after it.

    Example:
        >>> unbroken("a 95 % interval") == "a 95\N{NO-BREAK SPACE}% interval"
        True
    """
    return re.sub(r"(?<=\d) %", "\N{NO-BREAK SPACE}%", text)


def outside() -> int:
    """Return the ``stacklevel`` with which a warning names the first line outside this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_globals.get("__name__", "").startswith("decoupled_descent") and frame.f_back:
        level, frame = level + 1, frame.f_back
    return level


def harmless(text: str) -> str:
    r"""Replace control characters of terminals by their codes.

    Example:
        >>> harmless("red: \x1b[31m")
        'red: \\x1b[31m'
    """
    return STEERING.sub(lambda found: ascii(found[0])[1:-1], text)
