r"""What drives the test error from one step to the next (Theorems "ddLearn" and "pureTaylor")."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.info import LimitStep
from decoupled_descent.descent.rules import Damped
from decoupled_descent.objective import Parameters
from decoupled_descent.objective.derivatives import depends_on_time
from decoupled_descent.theory.averages import Slopes
from decoupled_descent.theory.evolution import Evolution
from decoupled_descent.theory.gaussian import psd_root
from decoupled_descent.theory.laws import on_cpu
from decoupled_descent.theory.state_evolution import StateEvolution


@dataclass(frozen=True)
class TaylorTerms:
    r"""The first-order change of the test error at every iterate, term by term.

    A negative term lowers the test error at the next step. All have shape (T,).

    Attributes:
        test_error: test_t.
        head_damping: −(1−γ₀) Σ_j p_j ⟨E∇_aΨ, ā_t⟩ (equation "aDamp").
        head_descent: −γ₁ ⟨Σ_j p_j E∇_aΨ, Σ_j p_j E f⟩ ("aDescent").
        theta_damping: −(1−η₀) Σ_j p_j ⟨E∇_hΨ, m_{j,t}⟩ ("ThDamp").
        signal: −η₁ Σ_jk K_jk p_j p_k ⟨E∇_hΨ, E g⟩: signal acquisition ("ThSignal"), K = αχ for
            decoupled descent.
        variance_damping: −η₀(1−η₀) Σ_j p_j ⟨E∇²_hΨ, Ω[t,t]⟩ ("omDamp").
        cross: −½ η₀η₁ Σ_j p_j ⟨E∇²_hΨ, Ξ[t,t] + Ξ[t,t]ᵀ⟩: the effect of past gradients on the
            variance ("omCross").
        cross_bound: η₀η₁ ‖Σ_j p_j E∇²_hΨ‖ (tr Ω[t,t] tr V[t,t])^{1/2}, which the size of ``cross``
            cannot exceed (Remark "TaylorError"); V is the overlap of the gradients.
    """

    test_error: Tensor
    head_damping: Tensor
    head_descent: Tensor
    theta_damping: Tensor
    signal: Tensor
    variance_damping: Tensor
    cross: Tensor
    cross_bound: Tensor

    @property
    def terms(self) -> dict[str, Tensor]:
        """The six terms by name."""
        others = ("test_error", "cross_bound")
        names = [field.name for field in fields(self) if field.name not in others]
        return {name: getattr(self, name) for name in names}

    @property
    def expansion(self) -> Tensor:
        """The test error of the next iterate to first order, shape (T,)."""
        return self.test_error + torch.stack(list(self.terms.values())).sum(0)

    @property
    def remainder(self) -> Tensor:
        """δ_t: test error of iterate t + 1 minus the expansion at t, shape (T − 1,)."""
        return self.test_error[1:] - self.expansion[:-1]


def _slopes(evolution: Evolution) -> Iterator[Slopes]:
    """Return the slopes of the test error at every iterate."""
    theory, width = evolution.theory, evolution.overlap.shape[-1]
    nodes, model = theory.nodes(width), theory.model(width)
    for t in range(len(evolution.test_error)):
        yield model.slopes(nodes, evolution.point(t))


@on_cpu
def taylor_terms(evolution: Evolution) -> TaylorTerms:
    r"""Expand the test error at every iterate of an evolution (Theorem "ddLearn").

    The theorem is about decoupled descent; the same expansion holds for every step that state
    evolution knows, with the overlaps Ω and Ξ of its rows.

    .. math:: \mathrm{test}_{t+1} = \mathrm{test}_t + \text{six terms} + \delta_t, \qquad
              \delta_t = O(\epsilon^2), \quad
              \epsilon = \max(|1-\eta_0|, |1-\gamma_0|, \eta_1, \gamma_1)

    Args:
        evolution: Of the paper's update rule.

    Returns:
        The terms.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(10, labels=(0.0, 1.0))
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.01, 0.99))
        >>> terms = taylor_terms(theory.run(5))
        >>> bool((terms.signal < 0).all()), float(terms.remainder.abs().max()) < 1e-3
        (True, True)
    """
    theory = evolution.theory
    eta0, eta1 = step_rates(theory)
    gamma0, gamma1 = head_rates(theory)
    rows = []
    for t, at in enumerate(_slopes(evolution)):
        pulled, xi = theory.ridge_step.align @ evolution.signal[t], evolution.xi[t, t]
        rows.append(
            [
                -(1 - gamma0) * inner(at.head, evolution.parameters(t)),
                -gamma1 * inner(at.head, at.head_direction),
                -(1 - eta0) * (at.alignment * evolution.alignment[t]).sum(),
                -eta1 * (at.alignment * pulled).sum(),
                -eta0 * (1 - eta0) * (at.curvature * evolution.overlap[t]).sum(),
                -0.5 * eta0 * eta1 * (at.curvature * (xi + xi.T)).sum(),
                eta0 * eta1 * _cross_bound(evolution, t, at.curvature),
            ]
        )
    columns = torch.tensor(rows, dtype=torch.float64).T
    return TaylorTerms(evolution.test_error, *columns)


def _cross_bound(evolution: Evolution, t: int, curvature: Tensor) -> float:
    """‖H‖_F (tr Ω[t,t] tr V[t,t])^{1/2}, at least |⟨H, Ξ[t,t]⟩| by Cauchy and Schwarz."""
    sizes = evolution.overlap[t].trace() * evolution.gradient_overlap[t, t].trace()
    return float(curvature.norm() * sizes.clamp(min=0).sqrt())


class PureTaylorTerms(NamedTuple):
    r"""The expansion of pure decoupled descent (Theorem "pureTaylor"); all of shape (T,).

    Attributes:
        head_descent: −η ‖G_t p‖², never positive.
        signal: −η α ‖U_t (diag(p) χ diag(p))^{1/2}‖²_F, never positive.
        cross: −½ η Σ_j p_j ⟨E∇²_hΨ, Ξ[t,t] + Ξ[t,t]ᵀ⟩, of either sign ("TaylorError").
        cross_bound: A bound on its size, as in :class:`TaylorTerms`.
    """

    head_descent: Tensor
    signal: Tensor
    cross: Tensor
    cross_bound: Tensor


@on_cpu
def pure_taylor_terms(evolution: Evolution) -> PureTaylorTerms:
    r"""Expand the test error of pure decoupled descent in the norms of Theorem "pureTaylor".

    Args:
        evolution: Of pure decoupled descent: no damping, no g and f, one rate for θ and the head.

    Returns:
        The three terms.
    """
    theory = evolution.theory
    (eta0, eta), (gamma0, gamma) = step_rates(theory), head_rates(theory)
    damped = eta0 != 1 or gamma0 != 1 or (evolution.head and gamma != eta)
    if damped or theory.step != LimitStep() or theory.covariance is not None:
        raise ValueError(
            f"algorithm={theory.algorithm!r} is not pure decoupled descent (no damping, no g and "
            "f, head_lr equal to the effective lr, no covariance); use taylor_terms"
        )
    terms, root = taylor_terms(evolution), psd_root(theory.mixture.overlaps)
    norms = [(at.alignment.T @ root).square().sum() for at in _slopes(evolution)]
    signal = -eta * theory.ratio * torch.stack(norms)
    return PureTaylorTerms(terms.head_descent, signal, terms.cross, terms.cross_bound)


def step_rates(theory: StateEvolution) -> tuple[float, float]:
    """Return η₀ and the effective η₁, or raise when the update rule is not the paper's."""
    if not theory.step.corrected:
        raise ValueError(
            f"algorithm={theory.algorithm!r} reuses its rows without a correction, and its steps "
            "have no expansion or fixed point in these overlaps; use DecoupledDescent"
        )
    if theory.step.batch_size is not None or theory.step.hessian_damping is not None:
        raise ValueError(
            "steps by mini-batches or preconditioned ones have no expansion or fixed point here; "
            "leave batch_size and hessian_damping out"
        )
    if theory.step.g is not None and depends_on_time(theory.step.g):
        raise ValueError("g depends on the step, so there is no expansion or fixed point here")
    rule = theory.algorithm.update
    if not isinstance(rule, Damped):
        raise ValueError(f"rule={rule!r} is not the paper's η₀ v − η₁ w; leave rule unset")
    return rule.damping, rule.lr * theory.algorithm.scale(theory.sample_size())


def head_rates(theory: StateEvolution) -> tuple[float, float]:
    """Return γ₀ and γ₁, or raise when the head has its own optimiser."""
    algorithm = theory.algorithm
    if algorithm.head_optimizer is not None:
        raise ValueError(
            "head_optimizer moves the head by a rule other than the paper's γ₀ a − γ₁ f; leave it "
            "unset"
        )
    lr = algorithm.lr if algorithm.head_lr is None else algorithm.head_lr
    return algorithm.head_damping, lr


def inner(left: Parameters, right: Parameters) -> float:
    """⟨left, right⟩ over all parameters."""
    return float(sum((left[name] * right[name]).sum() for name in left))
