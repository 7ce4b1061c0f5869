r"""The responses of θ measured on the rows, for noise of a covariance that nobody knows.

With noise of covariance S/d, row i contains A_ts = x_iᵀ R_ts x_i of its own ĥ_s. R_ts says how θ_t
moves with the gradient of step s in a run without row i. That is tr(S R_ts)/d, the same for all
rows. In the run *with* row i the same quadratic form is P^i_ts, and row i answers to itself:

.. math:: P^i = A + A D^i A, \qquad D^i = J^i (I + A D^i) .

The mean of P^i over the rows is tr(X R Xᵀ)/n of the run itself. It can be measured, and D follows
from A. So A_t = P̄_t (I + D̄ A)⁻¹, step by step.

The trace is that of vᵀRv for v = Σ_k ± √λ_k r_k, with random signs and λ_k, r_k the eigenvalues and
eigenvectors of XᵀX. If R has these eigenvectors, as it has for a loss of constant curvature, one v
gives the trace exactly.

**Pairs of rows.** v = Xᵀε is a sum of rows with random factors ε_i of mean square one. So it moves
θ by u_t = Σ_s φ_s R_ts v as √n independent rows would. Row i without its own part in u,

.. math:: U_{t,i} = x_i^\top u_t - \textstyle\sum_s A_{ts}J^i_s x_i^\top u_s
   - \sum_s\varphi_s A_{ts}\varepsilon_i,

has the mean square n tr(S B S B)/d² with B = Σ_s φ_s R_ts.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from decoupled_descent.descent.rules import LinearRule, Slots
from decoupled_descent.descent.starts import stream
from decoupled_descent.rows.blocks import Rows

#: The number of vectors v.
PROBES = 2
#: Singular values of X below this share of the largest are zero.
SMALL = 1e-6


class Probes(NamedTuple):
    """How θ moves when v is added to the gradients of earlier steps, in K groups of steps."""

    inputs: Tensor  # v, shape (q, d)
    moved: Tensor  # means of R_ts v over a group, for each unit that v is added to: (L, d, q, K, L)
    slots: Slots  # what the update rule carries for them
    factors: Tensor  # ε, shape (q, n)
    heard: Tensor  # sums of J^i_s x_iᵀu_s, shape (L, q, K, L, n)
    unevenness: Tensor  # tr(SBSB)/d² over the square of tr(SB)/d at the last step


def start(rows: Rows, width: int, rule: LinearRule) -> Probes:
    """Draw the signs; nothing has moved yet."""
    vectors = rows.gram.vectors
    signs = torch.randn(PROBES, len(vectors), generator=stream("probes"), device="cpu").sign()
    signs = signs.to(vectors)
    if len(vectors) == rows.d:  # eigenvectors of XᵀX
        roots = rows.gram.eigenvalues.clamp_min(0).sqrt()
        held = roots > SMALL * roots.max()
        inverse = torch.where(held, 1 / roots, 0.0)
        inputs = ((signs * roots) @ vectors.T).to(rows.like)
        factors = rows.forward(((signs * inverse) @ vectors.T).to(rows.like))
    else:  # of XXᵀ
        factors = (signs @ vectors.T).to(rows.like)
        inputs = rows.backward(factors)
    moved = rows.like.new_zeros(width, rows.d, PROBES, 0, width)
    heard = rows.like.new_zeros(width, PROBES, 0, width, rows.n)
    return Probes(inputs, moved, rule.slots(moved), factors, heard, rows.like.new_zeros(()))


def flat(probes: Probes) -> Tensor:
    """The vectors R_ts v, shape (L q K L, d)."""
    return probes.moved.movedim(1, -1).flatten(0, -2)


def pushed(probes: Probes, forward: Tensor, jacobians: Tensor) -> Tensor:
    """What the rows answer: ∇g X R_ts v, shape (L q K L, n).

    Args:
        probes: Before the step.
        forward: X R_ts v, shape (L q K L, n).
        jacobians: ∇g of all n rows, shape (n, L, L).
    """
    width = len(probes.moved)
    parts = forward.reshape(width, len(forward) // width, forward.shape[1])
    return torch.einsum("nab,bkn->akn", jacobians, parts).flatten(0, 1)


def listened(
    probes: Probes,
    forward: Tensor,
    jacobians: Tensor,
    influence: Tensor,
    phantom: Tensor,
    index: Tensor | slice,
) -> Probes:
    """Take note of what the rows receive of u_t, and measure U.

    Args:
        probes: Before the step, with K groups.
        forward: X R_ts v, shape (L q K L, n'), for the n' rows of a mini-batch, or all.
        jacobians: ∇g of these rows, shape (n', L, L).
        influence: A_ts, shape (L, K L).
        phantom: φ, shape (K,).
        index: Which rows these are.
    """
    width, count, groups, _, n = probes.heard.shape
    parts = forward.reshape(width, count, groups, width, forward.shape[1])
    received = torch.einsum("lqkbn,k->lqbn", parts, phantom)
    A = influence.reshape(width, groups, width)
    mean = torch.einsum("akb,k->ab", A, phantom)
    alone = received - torch.einsum("akc,cqkbn->aqbn", A, probes.heard[..., index])
    alone = alone - torch.einsum("ab,qn->aqbn", mean, probes.factors[:, index])
    square = alone.square().mean((1, 3)).sum() / n
    total = mean.square().sum().clamp_min(torch.finfo(mean.dtype).tiny)
    answers = probes.heard.new_zeros(width, count, 1, width, n)
    answers[:, :, 0, :, index] = torch.einsum("nab,bqcn->aqcn", jacobians, received)
    heard = torch.cat([probes.heard, answers], 2)
    return probes._replace(heard=heard, unevenness=square / total)


def move(probes: Probes, back: Tensor, rule: LinearRule, step: int, scale: float) -> Probes:
    """Move as θ does, along Xᵀ∇g X R_ts v, shape (L q K L, d), and along v from this step on."""
    width, d, count, groups, _ = probes.moved.shape
    along = back.reshape(width, count, groups, width, d).movedim(-1, 1)
    eye = torch.eye(width, dtype=back.dtype, device=back.device)
    new = torch.einsum("qd,lb->ldqb", probes.inputs, eye).unsqueeze(3)
    along = torch.cat([along, new], 3)
    value, *slots = (
        torch.cat([part, torch.zeros_like(new)], 3) if part.shape == probes.moved.shape else part
        for part in (probes.moved, *probes.slots)
    )
    flats = tuple(slot.flatten(1) if slot.shape == along.shape else slot for slot in slots)
    moved, kept = rule(value.flatten(1), along.flatten(1), flats, step, scale)
    return probes._replace(
        moved=moved.reshape(along.shape),
        slots=tuple(
            slot.reshape(along.shape) if slot.shape == moved.shape else slot for slot in kept
        ),
    )


def grouped(probes: Probes, means: Tensor, sums: Tensor) -> Probes:
    """Means and sums over larger groups of steps, given those of each, shape (groups, K)."""

    def joined(part: Tensor) -> Tensor:
        if part.shape != probes.moved.shape:
            return part
        return torch.einsum("gk,ldqkb->ldqgb", means, part)

    slots = tuple(joined(slot) for slot in probes.slots)
    heard = torch.einsum("gk,lqkbn->lqgbn", sums, probes.heard)
    return probes._replace(moved=joined(probes.moved), slots=slots, heard=heard)


def traces(probes: Probes, n: int) -> Tensor:
    """P̄_ts = tr(X R_ts Xᵀ)/n, shape (L, K L)."""
    every = torch.einsum("qd,ldqkb->lkb", probes.inputs, probes.moved)
    return every.flatten(1) / (n * len(probes.inputs))
