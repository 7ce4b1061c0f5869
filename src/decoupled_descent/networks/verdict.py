r"""Whether the estimate of a network can be trusted, from what its own training measured.

The path leave-one-out measures by how much its linearisation errs (the drift, and rows that are
lost), stacked folds by how much too high they are (the sample-size bias). Both are compared with
the standard error. The standard error itself is uncertain if few rows make up the error: with
δ = loss − mean, it has a relative error of 1/(2√m) for m = (Σδ²)²/Σδ⁴. Rows that are there twice,
or belong together, make the error too low (``agreement.py``).

The limits were set on nine tables, so that right estimates are trusted; docs/studies/networks.md
has the verdicts on others, and on runs that are wrong on purpose.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

TRUST, CAUTION, NEVER = "trust", "caution", "do not trust"
#: Shares of the standard error that an error of the estimate may have.
SLIGHT, LARGE = 0.5, 2.0
#: With fewer rows (or groups) the standard error is a guess; with fewer still, so is the error.
FEW, VERY_FEW = 39, 14
#: With fewer rows behind the error, m, its standard error is wrong by a third and more.
BEHIND = 2.0
#: Shares of rows that have a copy elsewhere, if the copies err alike by this much. Real tables have
#: up to 9 % of such copies.
SOME_COPIES, MANY_COPIES, ALIKE = 0.1, 0.3, 0.5
#: How much more the error rises without nearest rows than without the next neighbours, in standard
#: errors. It was at most 0.3 for independent rows of the tables on which this was developed.
RISES, RISES_MUCH = 0.45, 1.0

Verdict = tuple[str, tuple[str, ...]]
Finding = tuple[int, str]


def path_verdict(count: int, behind: float, stderr: float, notes: Mapping[str, float]) -> Verdict:
    """The verdict on a path leave-one-out.

    Args:
        count: The number of rows or groups that are followed.
        behind: The number of rows behind the error, see :func:`rows_behind`.
        stderr: The standard error.
        notes: What the algorithm measured at this step.

    Returns:
        The verdict and its reasons.

    Example:
        >>> notes = {"drift": 0.001, "lost": 0, "lost_error": 0.0}
        >>> path_verdict(100, 50.0, 0.03, notes)
        ('trust', ())
        >>> path_verdict(100, 50.0, 0.03, notes | {"drift": 0.1})[0]
        'do not trust'
    """
    error = abs(notes["drift"]) + notes["lost_error"]
    share = error / max(stderr, 1e-300)
    if notes.get("failed", 0.0) or not math.isfinite(error):
        share = math.inf
    reason = (
        f"The runs without single rows are followed with an error of {error:.2g}, which is "
        f"{share:.1g} standard errors ({notes['lost']:.0f} rows are lost); use a smaller rate, a "
        "larger ridge, or CrossFit."
    )
    return _worst(
        [*_of_rows(count, behind), *_of_near_rows(notes, stderr), (_level(share), reason)]
    )


def folds_verdict(
    losses: Tensor, bias: float, stderr: float, notes: Mapping[str, float] | None = None
) -> Verdict:
    """The verdict on stacked folds.

    Args:
        losses: Out-of-fold losses.
        bias: By how much the error is expected to be too high, as copies see fewer rows.
        stderr: Its standard error.
        notes: Copies of rows in other folds, if they were counted.

    Returns:
        The verdict and its reasons.

    Example:
        >>> import torch
        >>> folds_verdict(torch.linspace(0, 1, 20), bias=0.0, stderr=0.07)[0]
        'caution'
    """
    if not math.isfinite(stderr):
        return NEVER, ("The out-of-fold error is not finite; use a smaller learning rate.",)
    share = bias / max(stderr, 1e-300)
    reason = (
        f"The copies see fewer rows, so the error is expected to be {bias:.2g} too high, which is "
        f"{share:.1g} standard errors; use more folds."
    )
    level = min(_level(share / 2), 1)  # too high is the safe side
    of_rows = _of_rows(len(losses), rows_behind(losses))
    return _worst([*of_rows, *_of_near_rows(notes or {}, stderr), (level, reason)])


def rows_behind(losses: Tensor) -> float:
    """How many rows make up the error: (Σδ²)²/Σδ⁴, with δ = loss − mean.

    Example:
        >>> import torch
        >>> rows_behind(torch.tensor([0.0, 0.0, 0.0, 8.0])) < 2
        True
    """
    squares = (losses - losses.mean()).double().square()
    quarts = float(squares.square().sum())
    return float(squares.sum()) ** 2 / quarts if quarts > 0 else float(len(losses))


def _of_near_rows(notes: Mapping[str, float], stderr: float) -> list[Finding]:
    """What rows mean that are there twice, or whose nearest rows lower the error."""
    copies, alike = notes.get("copies", 0.0), notes.get("alike", 0.0) > ALIKE
    rise = notes.get("rise", 0.0) / max(stderr, 1e-300)
    return [
        (
            alike * ((copies > SOME_COPIES) + (copies > MANY_COPIES)),
            f"{100 * copies:.0f} % of the rows have a copy that is not left out with them, with "
            "the same label; remove the copies, or pass groups=.",
        ),
        (
            (rise > RISES) + (rise > RISES_MUCH),
            f"The error rises by {rise:.1g} standard errors if the nearest row of each row is left "
            "out, too, which other neighbours do not explain: if several rows belong to one "
            "patient, day or device, pass groups=.",
        ),
    ]


def _of_rows(count: int, behind: float) -> list[Finding]:
    """What few rows, or few rows behind the error, mean."""
    return [
        (
            (count < FEW) + (count < VERY_FEW),
            f"There are {count} rows (or groups) only; with so few the estimate is a guess.",
        ),
        (
            int(behind < BEHIND),
            f"About {behind:.0f} rows make up the error, so its standard error is uncertain.",
        ),
    ]


def _level(share: float) -> int:
    return (share > SLIGHT) + (share > LARGE)


def _worst(findings: list[Finding]) -> Verdict:
    level = max(each for each, _ in findings)
    return (TRUST, CAUTION, NEVER)[level], tuple(reason for each, reason in findings if each)
