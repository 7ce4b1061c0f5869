"""How the report writes numbers, intervals, values and tables."""

from __future__ import annotations

import html
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

_RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")

#: A cell longer than this is cut.
LONGEST = 400


#: Verdicts and statuses: colour of the badge, and the sign that tells them apart without it.
TONES = {
    "trust": ("good", "✓"),
    "ok": ("good", "✓"),
    "note": ("plain", "·"),
    "caution": ("warn", "!"),
    "do not trust": ("bad", "✕"),
    "alarm": ("bad", "✕"),
}


def number(value: float, digits: int = 4) -> str:
    """Write a number for people, with so many significant digits and no trailing zeros.

    Args:
        value: May be NaN or infinite.
        digits: Significant digits; whole numbers are never cut below a million.

    Returns:
        Plain text.

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
    """Write numbers to the same decimals: those that their uncertainty leaves meaningful.

    Args:
        values: Finite numbers that share a standard error.
        uncertainty: That standard error; two of its digits are kept, of percentages one.
        percent: Whether to write shares as percentages.

    Returns:
        As many texts.

    Example:
        >>> together([0.43217, 0.391, 0.473], 0.0213)
        ['0.432', '0.391', '0.473']
        >>> [text.split() for text in together([0.9312, 1.0], 0.0123, percent=True)]
        [['93.1', '%'], ['100.0', '%']]
    """
    factor, unit = (100.0, "\N{NO-BREAK SPACE}%") if percent else (1.0, "")
    scale, largest = factor * uncertainty, factor * max(abs(value) for value in values)
    if not 0 < scale < math.inf or not largest < math.inf:
        return [number(factor * value) + unit for value in values]
    if not 1e-4 <= max(scale, largest) < 1e6:
        exponent = math.floor(math.log10(max(scale, largest)))
        unit = f"\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE}{power_of_ten(exponent)}{unit}"
        factor, scale = factor / 10.0**exponent, scale / 10.0**exponent
    decimals = max(0, 1 - math.floor(math.log10(scale)))
    decimals = max(1, decimals - 1) if percent else decimals
    return [_fixed(factor * value, min(decimals, 6)) + unit for value in values]


def prose(text: Any) -> str:
    """Write a sentence as HTML, escaped, with what stands in backticks as code.

    Args:
        text: What to write.

    Returns:
        HTML.

    Example:
        >>> prose("Run `ls <dir>`.")
        'Run <code>ls &lt;dir&gt;</code>.'
    """
    return re.sub("`([^`]+)`", r"<code>\1</code>", show(text))


def show(value: Any) -> str:
    """Write any value from the data as HTML, escaped.

    Args:
        value: A number (also of numpy or torch), text, None, a mapping or a list of such.

    Returns:
        Escaped text, cut at :data:`LONGEST` characters.

    Example:
        >>> show({"lr": 0.05, "head": "<b>"})
        'lr = 0.05, head = &lt;b&gt;'
    """
    written = _plain(value)
    return html.escape(written if len(written) <= LONGEST else written[: LONGEST - 1] + "…")


def _plain(value: Any) -> str:
    if getattr(value, "ndim", None) == 0 and hasattr(value, "item"):
        value = value.item()
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return number(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{_plain(k)} = {_plain(v)}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(_plain(one) for one in value)
    return str(value)


def interval(
    value: float, stderr: float | None, low: float = 0.0, high: float = math.inf
) -> tuple[float, ...]:
    """Return an estimate with its 95 % interval, value ± 1.96 stderr, cut at what is possible.

    Args:
        value: The estimate.
        stderr: Its standard error; None, NaN and infinity give no interval.
        low: The smallest value possible; it does not cut an estimate that lies below it.
        high: The largest, likewise.

    Returns:
        The estimate alone, or estimate, lower and upper end.

    Example:
        >>> interval(0.5, 0.1), interval(0.5, None)
        ((0.5, 0.304, 0.696), (0.5,))
    """
    if stderr is None or not math.isfinite(stderr) or not math.isfinite(value):
        return (value,)
    lower, upper = value - 1.96 * stderr, value + 1.96 * stderr
    return value, max(lower, min(low, value)), min(upper, max(high, value))


def badge(word: Any, label: Any = None) -> str:
    """Write a coloured label with a sign and a word, so that colour is not needed.

    Args:
        word: One of :data:`TONES`, which sets colour and sign; anything else is grey.
        label: What to write instead of the word.

    Returns:
        HTML.
    """
    tone, sign = TONES.get(str(word).lower(), ("plain", "·"))
    name = show(word if label is None else label)
    return f'<span class="badge {tone}"><span aria-hidden="true">{sign}</span> {name}</span>'


def column(values: Sequence[Any]) -> list[str]:
    """Write one column of a table; numbers of similar size get the same decimals.

    Args:
        values: The cells.

    Returns:
        As many escaped texts.

    Example:
        >>> column([0.1, 0.05]), column([0.001, 1000.0])
        (['0.10', '0.05'], ['0.001', '1,000'])
    """
    texts = [show(value) for value in values]
    sizes = [abs(v) for v in values if isinstance(v, float) and math.isfinite(v) and v]
    if not sizes or max(sizes) >= 1e6 or min(sizes) < 1e-4 or max(sizes) > 100 * min(sizes):
        return texts
    decimals = max(len(number(size).partition(".")[2]) for size in sizes)
    return [
        _fixed(v, decimals) if isinstance(v, float) and math.isfinite(v) else text
        for v, text in zip(values, texts, strict=True)
    ]


def is_number(value: Any) -> bool:
    """Whether a cell belongs on the right: a number that is not yes or no."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def table(
    header: Sequence[str],
    rows: Sequence[Sequence[str]],
    caption: str,
    kind: str = "",
    right: Sequence[int] = (),
    visible: bool = False,
) -> str:
    """Write a table whose first column names its rows.

    Args:
        header: Column names, escaped.
        rows: Cells, escaped or HTML.
        caption: What the table shows, escaped; announced, and the name of the scrollable box.
        kind: CSS classes of the table; ``"stack"`` turns rows into cards on a phone.
        right: Columns that hold numbers.
        visible: Whether the caption is also shown.

    Returns:
        HTML: the table in a box that scrolls sideways when it must.
    """
    heads = "".join(
        f'<th scope="col"{_number_class(k, right)}>{name}</th>' for k, name in enumerate(header)
    )
    hidden = "" if visible else ' class="hidden"'
    body = "".join(f"<tr>{_cells(row, header, right)}</tr>" for row in rows)
    return (
        f'<div class="scroll" role="region" aria-label="{caption}" tabindex="0">'
        f'<table class="{kind}"><caption{hidden}>{caption}</caption><thead><tr>{heads}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def _cells(row: Sequence[str], header: Sequence[str], right: Sequence[int]) -> str:
    first = f'<th scope="row"{_number_class(0, right)}>{row[0]}</th>'
    return first + "".join(
        f'<td data-name="{header[k]}"{_number_class(k, right)}>{cell}</td>'
        for k, cell in enumerate(row)
        if k > 0
    )


def _number_class(index: int, right: Sequence[int]) -> str:
    return ' class="number"' if index in right else ""
