"""How the report and the terminal write numbers, intervals, values and tables."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from decoupled_descent import checks

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SPACE = "\N{NO-BREAK SPACE}"

#: What an interval is called.
INTERVAL = checks.unbroken("95 % interval")

#: A text longer than this is cut.
LONGEST = 400

#: Verdicts and statuses: the colour of the badge, and a sign for readers who do not see colours.
TONES = {
    "trust": ("good", "✓"),
    "ok": ("good", "✓"),
    "note": ("plain", "·"),
    "caution": ("warn", "!"),
    "do not trust": ("bad", "✕"),
    "alarm": ("bad", "✕"),
}


def number(value: float, digits: int = 4) -> str:
    """Write a number with this many significant digits and no trailing zeros.

    Whole numbers below a million keep all their digits.

    Example:
        >>> [number(v) for v in (0.123456, 12345.6, 2.5e-7, float("nan"), float("-inf"))]
        ['0.1235', '12,346', '2.5 × 10⁻⁷', 'undefined', '−∞']
    """
    if not math.isfinite(value):
        return "undefined" if math.isnan(value) else "∞" if value > 0 else "−∞"
    if value != 0 and not 1e-4 <= abs(value) < 1e6:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        mantissa = mantissa.rstrip("0").rstrip(".") if "." in mantissa else mantissa
        factor = "" if mantissa == "1" else f"{mantissa} × "
        return factor.replace("-", "−") + power_of_ten(int(exponent))
    size = math.floor(math.log10(abs(value))) if value else 0
    return _fixed(value, max(0, digits - 1 - size), strip=True)


def power_of_ten(exponent: int) -> str:
    """Write a power of ten, such as 10⁻⁵."""
    return "10" + str(exponent).translate(_RAISED)


def _fixed(value: float, decimals: int, strip: bool = False) -> str:
    written = f"{round(value, decimals) + 0.0:,.{decimals}f}".replace("-", "−")  # + 0.0: no −0
    return written.rstrip("0").rstrip(".") if strip and "." in written else written


def together(values: Sequence[float], uncertainty: float, percent: bool = False) -> list[str]:
    """Write numbers that share a standard error to the same decimals.

    Two digits of the standard error are kept, of percentages one.

    Example:
        >>> together([0.43217, 0.391, 0.473], 0.0213)
        ['0.432', '0.391', '0.473']
        >>> [text.split() for text in together([0.9312, 1.0], 0.0123, percent=True)]
        [['93.1', '%'], ['100.0', '%']]
    """
    factor, unit = (100.0, f"{_SPACE}%") if percent else (1.0, "")
    scale, largest = factor * uncertainty, factor * max(abs(value) for value in values)
    if not 0 < scale < math.inf or not largest < math.inf:
        return [number(factor * value) + unit for value in values]
    if not 1e-4 <= max(scale, largest) < 1e6:
        exponent = math.floor(math.log10(max(scale, largest)))
        unit = f"{_SPACE}×{_SPACE}{power_of_ten(exponent)}{unit}"
        factor, scale = factor / 10.0**exponent, scale / 10.0**exponent
    decimals = max(0, 1 - math.floor(math.log10(scale)))
    decimals = max(1, decimals - 1) if percent else decimals
    return [_fixed(factor * value, min(decimals, 6)) + unit for value in values]


def interval(
    value: float, stderr: float | None, low: float = 0.0, high: float = math.inf
) -> tuple[float, ...]:
    """Return an estimate and the ends of its 95 % interval, cut at ``low`` and ``high``.

    Without a finite standard error, the estimate is returned alone. An estimate that is itself
    outside ``low`` to ``high`` is not moved.

    Example:
        >>> [round(end, 3) for end in interval(0.5, 0.1)], interval(0.5, None)
        ([0.5, 0.304, 0.696], (0.5,))
    """
    if stderr is None or not math.isfinite(stderr) or not math.isfinite(value):
        return (value,)
    lower, upper = checks.interval(value, stderr)
    return value, max(lower, min(low, value)), min(upper, max(high, value))


def error_interval(value: float, stderr: float | None) -> tuple[float, ...]:
    """Return a mean loss and the ends of its 95 % interval; alone without a standard error.

    Example:
        >>> [round(end, 3) for end in error_interval(0.5, 0.1)], error_interval(0.5, None)
        ([0.5, 0.323, 0.715], (0.5,))
    """
    if stderr is None or not math.isfinite(stderr) or not math.isfinite(value):
        return (value,)
    lower, upper = checks.error_interval(value, stderr)
    return value, max(lower, min(0.0, value)), upper


def roots(squares: Sequence[float]) -> tuple[float, ...]:
    """Roots of a squared error and of the ends of its interval; one below 0 counts as 0."""
    return tuple(math.sqrt(max(0.0, one)) if one == one else one for one in squares)


def written_interval(estimate: Sequence[float], percent: bool = False) -> tuple[str, str]:
    r"""Write what :func:`interval` returned: the estimate, and its 95 % interval in words.

    Example:
        >>> written_interval((0.43217, 0.391, 0.473)), written_interval((0.5,))
        (('0.432', '95\xa0% interval 0.391 to 0.473'), ('0.5', 'no interval'))
    """
    stderr = (estimate[2] - estimate[1]) / (2 * checks.Z95) if len(estimate) == 3 else 0.0
    value, *ends = together(estimate, stderr, percent)
    return value, f"{INTERVAL} {ends[0]} to {ends[1]}" if ends else "no interval"


def as_text(value: Any) -> str:
    """Write any value of the data as one harmless text, cut at :data:`LONGEST` characters.

    Example:
        >>> as_text({"lr": 0.05, "head": "<b>"})
        'lr = 0.05, head = <b>'
    """
    written = checks.harmless(_written(value))
    return written if len(written) <= LONGEST else written[: LONGEST - 1] + "…"


def _written(value: Any) -> str:
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_written(k)} = {_written(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_written(one) for one in value)
    return str(value)


def code_pieces(text: Any) -> list[str]:
    """Split a sentence at its backticks: every second piece is code.

    Example:
        >>> code_pieces("Run `ls`.")
        ['Run ', 'ls', '.']
    """
    return re.split("`([^`]+)`", as_text(text))


def option_pieces(command: str) -> list[str]:
    """Split a command at its options, which no line may break: every second piece is an option.

    Example:
        >>> option_pieces("predict model --out new.csv")
        ['predict model ', '--out', ' new.csv']
    """
    return re.split(r"(?<!\S)(--[a-z-]+)", command)


def tone(word: Any) -> tuple[str, str]:
    """Return the colour and the sign of a verdict or status; others are grey."""
    return TONES.get(str(word).lower(), ("plain", "·"))


def column(values: Sequence[Any]) -> list[str]:
    """Write one column of a table; numbers of similar size get the same decimals.

    Example:
        >>> column([0.1, 0.05]), column([0.001, 1000.0])
        (['0.10', '0.05'], ['0.001', '1,000'])
    """
    texts = [as_text(value) for value in values]
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v]
    if not sizes or max(sizes) >= 1e6 or min(sizes) < 1e-4 or max(sizes) > 100 * min(sizes):
        return texts
    decimals = max(len(number(size).partition(".")[2]) for size in sizes)
    return [
        _fixed(v, decimals) if isinstance(v, float) and math.isfinite(v) else text
        for v, text in zip(values, texts, strict=True)
    ]
