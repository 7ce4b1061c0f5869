r"""By how much folds of fewer rows are expected to give a too high error.

Copy k is trained on :math:`m_k < n` rows, the model on n. Near a minimum, with E∞ the lowest
error that the network can have, the error on new rows and the error on the training rows are

.. math:: E(m) = E_\infty + b/m, \qquad E_{\text{fitted}}(m) = E_\infty - b/m

to leading order (the classical result behind Akaike's and Takeuchi's criteria: the model is as
much better on its own rows as it is worse on new ones). The out-of-fold error is
:math:`E_\infty + b\,\overline{1/m}` and the model's error on its own rows :math:`E_\infty - b/n`.
With r the mean of :math:`n/m_k` over the rows that are evaluated, the difference of the two, called
the gap, gives b, and

.. math:: \text{bias} = b\,(\overline{1/m} - 1/n) = \text{gap}\,\frac{r - 1}{r + 1} ,

which is gap/(2K − 1) for K folds. It costs nothing, as both errors are measured. The power law
E(m) = a + b m^{−c} with another exponent gives about c times as much. If the fitted error is
already E∞ (a network far from interpolating), the bias is at most gap (r − 1)/r, twice as much.
"""

from __future__ import annotations

from decoupled_descent.evaluation.folds import FoldAssignment


def size_ratio(assignment: FoldAssignment) -> float:
    """The mean over evaluated rows of n over the number of rows that their copy was trained on.

    Example:
        >>> import torch
        >>> size_ratio(FoldAssignment(torch.arange(20) % 10, 10))
        1.111...
    """
    fold = assignment.fold[assignment.evaluated]
    return float((len(assignment.fold) / assignment.sizes.double())[fold].mean())


def expected_bias(error: float, fitted_error: float, ratio: float) -> float:
    """Out-of-fold error minus the error of the model of all rows, expected; at least 0.

    Args:
        error: The out-of-fold error.
        fitted_error: The error of the model of all rows on these rows.
        ratio: r, see :func:`size_ratio`.

    Returns:
        The bias.

    Example:
        >>> round(expected_bias(0.5, 0.31, 10 / 9), 6)
        0.01
    """
    return max(0.0, error - fitted_error) * (ratio - 1) / (ratio + 1)
