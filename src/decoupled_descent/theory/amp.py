r"""Decoupled descent as approximate message passing (equations "frozenAmp…", "reparam")."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.theory.evolution import Evolution
from decoupled_descent.theory.laws import as_limit, on_cpu
from decoupled_descent.theory.recursion import rule_coefficients


class AmpPath(NamedTuple):
    r"""Iterates of the frozen iteration, all indexed by time first.

    Attributes:
        z: z_t, shape (T, n, L): Gaussian in the limit, with covariance Ω/α.
        w: w_t, shape (T, d, L): Gaussian in the limit, with covariance Σ.
        preactivations: h_t = √α z_t + m_{j,t}, shape (T, n, L).
        theta: θ_t, shape (T, L, d), laid out as in training.
        gradients: θ̃_t = √α w_t + α Σ_j μ_j l_{j,t}ᵀ, shape (T, L, d).
    """

    z: Tensor
    w: Tensor
    preactivations: Tensor
    theta: Tensor
    gradients: Tensor


@on_cpu
def amp_form(evolution: Evolution, X: Any, y: Any, modes: Any, theta: Any) -> AmpPath:
    r"""Run decoupled descent in the variables of approximate message passing.

    .. math::
       z_t &= \tilde Z\theta_t - \textstyle\sum_{s<t}\hat h_s B_{t,s}^\top, \qquad
       \hat h_t = g(\sqrt\alpha z_t + m_{j,t}, y, \bar a_t) \\
       w_t &= \tilde Z^\top\hat h_t - \theta_t C_t^\top, \qquad
       \theta_{t+1} = F_t(w_1, \dots, w_t) \\
       B_{t,s} &= \tfrac dn\,\partial F_{t-1}/\partial w_s, \qquad
       C_t = \tfrac1n\textstyle\sum_i \partial\hat h_{t,i}/\partial z_{t,i}

    with Z̃ = α^{−1/2} Z of variance 1/n. Three things are *frozen*: the alignments m_{j,t}, the
    signals l_{j,t} and the head ā_t are those of the evolution, not those of the run. The rest is a
    function of Z alone, and the theory of message passing applies to it. With the run's own m, l
    and a in the evolution (``dataclasses.replace``) this *is* the run.

    Args:
        evolution: Of decoupled descent with C = I; gives m, l, ā, the rule and g.
        X: The rows, shape (n, d).
        y: Their responses, shape (n,).
        modes: Their modes, shape (n,), from :meth:`GaussianMixture.sample_with_modes`.
        theta: θ_1, shape (L, d).

    Returns:
        The iterates in both sets of variables.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(400, snr=1.5, labels=(0.0, 1.0))
        >>> X, y, modes = mixture.sample_with_modes(400, seed=0)
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> theta = torch.randn(1, 400, generator=torch.Generator().manual_seed(0))
        >>> theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.2))
        >>> path = dd.theory.amp_form(theory.run(4, theta), X, y, modes, theta)
        >>> path.z.shape, path.w.shape
        (torch.Size([4, 400, 1]), torch.Size([4, 400, 1]))
    """
    theory = evolution.theory
    plain = theory.step.corrected and not theory.step.divergence_free
    if not plain or theory.covariance is not None or theory.step.batch_size is not None:
        raise ValueError(
            f"algorithm={theory.algorithm!r}: the change of variables is written for "
            "DecoupledDescent without batch_size, on rows without a covariance"
        )
    means = theory.mixture.means
    if means is None:
        raise ValueError("amp_form needs a mixture with means, such as GaussianMixture")
    X, y, start = as_limit(X), as_limit(y), as_limit(theta)
    modes = torch.as_tensor(modes, device="cpu")
    (n, d), steps, width = X.shape, len(evolution.test_error), len(start)
    alpha = n / d
    scaled = (X - means[modes] / d) / math.sqrt(alpha)  # Z̃
    model = theory.model(width)
    scale = theory.algorithm.scale(n)
    coefficients = rule_coefficients(theory.algorithm.update, steps, width, scale)
    path: dict[str, list[Tensor]] = {name: [] for name in AmpPath._fields}
    hats: list[Tensor] = []
    for t in range(steps):
        past = [start, *path["gradients"]]
        blocks = coefficients[t].reshape(width, -1, width).unbind(1)
        moved = sum(block @ b for block, b in zip(blocks, past, strict=False))
        current = torch.as_tensor(moved)  # F_{t−1}, which is θ_t, shape (L, d)
        z = scaled @ current.T
        for hat, block in zip(hats, blocks[1:], strict=False):
            z = z - hat @ (math.sqrt(alpha) * block / alpha).T  # ∂F/∂w = √α ∂θ_t/∂θ̃
        h = math.sqrt(alpha) * z + evolution.alignment[t][modes]
        rows = model.bound.derivatives(h, y, evolution.parameters(t), head=False)
        assert rows.jacobian is not None
        hats.append(rows.direction)
        w = scaled.T @ rows.direction - current.T @ (math.sqrt(alpha) * rows.jacobian).T
        tilde = math.sqrt(alpha) * w.T + alpha * evolution.signal[t].T @ means
        for name, value in zip(AmpPath._fields, (z, w, h, current, tilde), strict=True):
            path[name].append(value)
    return AmpPath(*(torch.stack(path[name]) for name in AmpPath._fields))
