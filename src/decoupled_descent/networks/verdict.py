r"""Whether the estimate of a network can be trusted, from what its own training measured.

The path leave-one-out knows by how much its linearisation errs (the drift), stacked folds by how
much too high they are (the sample-size bias). Both are compared with the standard error. The
standard error itself is uncertain if few rows make up the error: with δ = loss − mean, it is known
to 1/(2√m) for m = (Σδ²)²/Σδ⁴.
"""

from __future__ import annotations

import math

from torch import Tensor

TRUST, CAUTION, NEVER = "trust", "caution", "do not trust"
#: Shares of the standard error that an error of the estimate may have.
SLIGHT, LARGE = 0.5, 2.0
#: With fewer rows (or groups) the standard error is a guess; with fewer still, so is the error.
FEW, VERY_FEW = 39, 14
#: With fewer rows behind the error, m, its standard error is wrong by a quarter and more.
BEHIND = 4

Verdict = tuple[str, tuple[str, ...]]


def path_verdict(losses: Tensor, drift: float, stderr: float) -> Verdict:
    """The verdict on a path leave-one-out.

    Args:
        losses: Left-out losses, one for each row or group that is followed.
        drift: By how much their mean is too high, as the next refinement has it.
        stderr: The standard error of their mean.

    Returns:
        The verdict and its reasons.

    Example:
        >>> import torch
        >>> path_verdict(torch.linspace(0, 1, 100), drift=0.001, stderr=0.03)
        ('trust', ())
        >>> path_verdict(torch.linspace(0, 1, 100), drift=0.1, stderr=0.03)[0]
        'do not trust'
    """
    share = abs(drift) / max(stderr, 1e-300) if math.isfinite(drift) else math.inf
    reason = (
        f"The runs without single rows are followed with an error of {drift:.2g}, which is "
        f"{share:.1g} standard errors; use a smaller rate, a larger ridge, or CrossFit."
    )
    return _worst([*_of_rows(losses), (_level(share), reason)])


def folds_verdict(losses: Tensor, bias: float, stderr: float) -> Verdict:
    """The verdict on stacked folds.

    Args:
        losses: Out-of-fold losses.
        bias: By how much the error is expected to be too high, as copies see fewer rows.
        stderr: Its standard error.

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
    return _worst([*_of_rows(losses), (level, reason)])


def _of_rows(losses: Tensor) -> list[tuple[int, str]]:
    """What few rows, or few rows behind the error, mean."""
    count, squares = len(losses), (losses - losses.mean()).double().square()
    quarts = float(squares.square().sum())
    behind = float(squares.sum()) ** 2 / quarts if quarts > 0 else float(count)
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


def _worst(found: list[tuple[int, str]]) -> Verdict:
    level = max(each for each, _ in found)
    return (TRUST, CAUTION, NEVER)[level], tuple(reason for each, reason in found if each)
