r"""Decoupled descent without a signal in closed form (the paper's section "signalless")."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from decoupled_descent.checks import whole_number


def signalless_overlap(
    steps: int, lr: float, damping: float = 1.0, ratio: float = 1.0, overlap: float = 1.0
) -> Tensor:
    r"""Ω[r,s] of decoupled descent on rows without a signal, squared loss and a linear head.

    .. math:: \Omega[r,s] = \Omega_1 \sum_k \binom{r-1}{k}\binom{s-1}{k}
              \eta_0^{r+s-2-2k} (\eta_1^2\alpha)^k

    Here g(h) = h, so Σ = Ω: the fields √α w_t of the gradients have the Gram matrix of the
    iterates themselves, times α, and are orthogonal to θ_1. With e_0, e_1, … orthonormal and S the
    shift e_k ↦ e_{k+1}, the vectors θ_t = (η₀ − η₁√α S)^{t−1} e_0 and w_t = Sθ_t have exactly these
    overlaps, because S keeps inner products and S θ_t has no component along e_0. The formula is
    the binomial theorem. By Parseval's identity

    .. math:: \Omega[t,t] = \frac{\Omega_1}{2\pi}\int_0^{2\pi}
              \big|\eta_0 - \eta_1\sqrt\alpha\,e^{i\varphi}\big|^{2(t-1)} d\varphi ,

    which grows like (η₀ + η₁√α)^{2t}/√t. With η₀ = 1 − η and η₁ = cη it falls if c²α < 1, and grows
    if c²α > 1. The test error is Ω[t,t]/2.

    Args:
        steps: T.
        lr: η₁.
        damping: η₀.
        ratio: α.
        overlap: Ω[1,1].

    Returns:
        Ω, shape (T, T).

    Example:
        >>> signalless_overlap(3, lr=0.05, damping=0.95).diagonal() / 2
        tensor([0.5000, 0.4525, 0.4118], dtype=torch.float64)
    """
    steps = whole_number("steps", steps)
    rows = torch.zeros(steps, steps, dtype=torch.float64)
    rows[0, 0] = math.sqrt(overlap)
    shift = lr * math.sqrt(ratio)
    for t in range(1, steps):  # coordinates of (η₀ − η₁√α S)^t e_0
        rows[t] = damping * rows[t - 1]
        rows[t, 1:] -= shift * rows[t - 1, :-1]
    return rows @ rows.T


def signalless_growth(lr: float, damping: float = 1.0, ratio: float = 1.0) -> float:
    """Final growth per step of the test error without a signal, (η₀ + η₁√α)²; falls below 1.

    Args:
        lr: η₁.
        damping: η₀.
        ratio: α.

    Returns:
        The factor; for η₀ = 1 − η and η₁ = cη it is one at c²α = 1.

    Example:
        >>> signalless_growth(lr=0.5 * 0.1, damping=0.9, ratio=4.0)  # c²α = 1
        1.0
    """
    return (damping + lr * math.sqrt(ratio)) ** 2
