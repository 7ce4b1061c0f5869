r"""The test error of descent that is not corrected: how rows respond to their own past.

Plain descent uses the same rows at every step. With Z the noise of the rows and w_t fresh noise,

.. math::
   Z^\top\hat h_t = w_t + \textstyle\sum_{s\le t} C\theta_s\, \Gamma_{ts}^\top, \qquad
   Z\theta_t = G_t + \textstyle\sum_{s<t} \hat h_s A_{ts}^\top,

where G_t has the law of the pre-activations of new rows. So row i as if it were new is
h_i − Σ_s A_ts ĥ_s,i. The two L × L responses say how θ_t moves with w_s, and ĥ_t with G_s:

.. math::
   D^i_{ts} &= \nabla g(h_{t,i})\,\Bigl(\delta_{ts} + w_i\textstyle\sum_{s\le r<t} A_{tr} D^i_{rs}
   \Bigr), \qquad \Gamma_{ts} = \alpha\,\tfrac1n\textstyle\sum_i w_i D^i_{ts} \\
   A_{\cdot s}(c) &\text{ moves like } \theta \text{ along } \delta_{ts} + c \textstyle\sum_r
   \Gamma_{tr} A_{rs}(c), \qquad A_{ts} = \text{mean of } c\,A_{ts}(c)

over the eigenvalues c of the noise covariance C, which are all 1 in the paper's model; the weights
w_i of the rows are 1 there. With a map of every entry of θ (:mod:`decoupled_descent.descent.prox`)
each column k of the rows has its own A_ts(k), with noise of variance c_k/d. In every update it is
multiplied by the slope of the map at θ_k. A_ts is the mean of c_k A_ts(k).

**Pairs of rows.** A is the mean of the eigenvalues of a response matrix R. Two rows have moved each
other's losses, and the variance of this is that of the mean square of the eigenvalues. Let one more
row be there, whose direction at step s has the length φ_s of the others. It moves θ by
u_t = Σ_s φ_s R_ts x. This is one more Gaussian process, with W_ts the covariance of Xu_t and Xu_s:

.. math::
   Q_{ts} = \alpha\,\tfrac1n\textstyle\sum_i w_i \sum_{ab} D^i_{ta} W_{ab} D^{i\top}_{sb},
   \qquad W_{ts} = \text{mean of } c^2\textstyle\sum_{ab}
   A_{ta}(c)\,(\varphi_a\varphi_b I + Q_{ab})\,A_{sb}(c)^\top .

W_tt over (Σ_s φ_s A_ts)² is the mean square of the eigenvalues over the square of their mean.

**Groups of steps.** A and D change slowly with s where s is long ago. So steps that are further
back than ``APART`` times their number become one group, with one mean of A and D. In Σ_s A_ts ĥ_s
the A of a group is a straight line. The number of groups grows with the logarithm of the number of
steps. The first ``ALONE`` − 1 steps are exact.

All of these are averages over rows of the run itself. Training is not changed. Decoupled descent
subtracts both sums at every step. It needs no responses.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from decoupled_descent.descent import probes as measuring
from decoupled_descent.descent.probes import Probes
from decoupled_descent.descent.rules import LinearRule, Slots
from decoupled_descent.descent.starts import stream
from decoupled_descent.rows.blocks import Rows

#: The number of rows whose responses are followed in the first steps.
FOLLOWED = 1000
#: The number of columns whose responses are followed, where columns differ.
COLUMNS = 500
#: Steps are put into groups when the latest steps that stand alone are this number.
ALONE = 16
#: Steps are grouped if they are further back than this number times the size of the group. After
#: 100 steps this moves the estimate by less than 0.03 standard errors (0.2 without straight lines).
APART = 2
#: When the responses take more than this number of bytes, half of the rows, or of the columns, are
#: followed from then on, but not fewer than ``FEWEST``. Where g has kinks, few rows are near one.
BYTES, BYTES_AT_KINKS, FEWEST = 2**22, 2**24, 100


class Responses(NamedTuple):
    """What the estimate carries from step to step, after t updates, in K groups of steps."""

    spectrum: Tensor  # c, the eigenvalues of the noise covariance, shape (S,)
    rows: Tensor  # the rows that are followed, shape (m,)
    sizes: Tensor  # the number of steps in each group, shape (K,)
    past: Tensor  # sums of ĥ_s of all rows, shape (K L, n), with zeros outside a mini-batch
    tilt: Tensor  # sums of (s − mean of s) ĥ_s, shape (K L, n)
    own: Tensor  # D_rs of each row: sums over r, means over s, shape (K L, K L, m)
    moved: Tensor  # A_rs(c): sums over r, means over s, shape (S, K L, K L)
    last: Tensor  # A_ts(c): means over s, shape (L, S, K L)
    slots: Slots  # what the update rule carries for A
    phantom: Tensor  # sums of φ_s, shape (K,)
    driving: Tensor  # sums of φ_r φ_s I + α Q_rs, shape (K L, K L)
    spread: Tensor  # sums of W_rs, shape (K L, K L)
    columns: Tensor | None = None  # the columns that have the S variances; None for eigenvalues
    probes: Probes | None = None  # if A is measured on the rows


def start(
    rows: Rows, width: int, spectrum: Tensor, rule: LinearRule, columns: Tensor | None = None
) -> Responses:
    """The responses before any update. The rows to follow are drawn at the first step.

    Args:
        rows: The rows of training.
        width: L.
        spectrum: c, shape (S,).
        rule: What moves θ.
        columns: The columns whose variances ``spectrum`` has; None for eigenvalues.
    """
    like, count = rows.like, len(spectrum)
    followed = torch.zeros(0, dtype=torch.int64, device=like.device)
    last = like.new_zeros(width, count, 0)
    return Responses(
        spectrum,
        followed,
        sizes=followed,
        past=like.new_zeros(0, rows.n),
        tilt=like.new_zeros(0, rows.n),
        own=like.new_zeros(0, 0, 0),
        moved=like.new_zeros(count, 0, 0),
        last=last,
        slots=rule.slots(last),
        phantom=like.new_zeros(0),
        driving=like.new_zeros(0, 0),
        spread=like.new_zeros(0, 0),
        columns=columns,
    )


def drawn(what: str, total: int, count: int) -> Tensor:
    """At most ``count`` of 0 … total − 1, drawn at random and sorted."""
    order = torch.randperm(total, generator=stream(f"{what} {total}"), device="cpu")
    return order[:count].sort().values


def prepared(at: Responses, n: int, kinked: bool) -> Responses:
    """Draw the rows that are followed from all n in the first step; later, save work."""
    if len(at.rows):
        return _within_memory(_grouped(at), BYTES_AT_KINKS if kinked else BYTES)
    followed = drawn("responses", n, FOLLOWED).to(at.rows)
    return at._replace(rows=followed, own=at.own.new_zeros(0, 0, len(followed)))


def common(followed: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which of the rows that are followed are in a batch, and where they are in it."""
    if index is None:
        return torch.arange(len(followed), device=followed.device), followed
    inside, which = (followed[:, None] == index).nonzero(as_tuple=True)
    return inside, which


def influence(at: Responses) -> Tensor:
    """A_ts, shape (L, K L): how the pre-activations of a row contain its own ĥ_s."""
    return torch.einsum("s,lsk->lk", at.spectrum, at.last) / len(at.spectrum)


def own_part(at: Responses) -> Tensor:
    """Σ_s A_ts ĥ_s, shape (L, n): what each row added to its own pre-activations."""
    responses = influence(at)
    part = responses @ at.past
    if len(at.sizes) and int(at.sizes[0]) > 1:  # the first groups are the largest
        means = responses.reshape(len(responses), len(at.sizes), -1)
        (slopes,) = torch.gradient(means, spacing=(_centres(at.sizes).to(means),), dim=1)
        part = part + slopes.flatten(1) @ at.tilt
    return part


def _centres(sizes: Tensor) -> Tensor:
    """The mean step of each group."""
    return sizes.cumsum(0) - (sizes + 1) / 2


def unevenness(at: Responses, d: int) -> Tensor:
    """tr(B²)/d² over the square of tr(B)/d, for B = Σ_s φ_s R_ts."""
    if at.probes is not None:
        return at.probes.unevenness
    width = len(at.last)
    mean = torch.einsum("asb,s->ab", influence(at).reshape(width, -1, width), at.phantom)
    square = _covariance(at)[1].trace() / d
    return square / mean.square().sum().clamp_min(torch.finfo(mean.dtype).tiny)


def advance(
    at: Responses,
    jacobians: Tensor,
    direction: Tensor,
    shares: Tensor | None,
    ratio: float,
) -> tuple[Responses, Tensor]:
    """Follow the responses through one step; return them, and the direction in which A moves.

    Args:
        at: The responses before the step.
        jacobians: ∇g of the rows that are followed, shape (m, L, L); zeros outside a mini-batch.
        direction: ĥ of all rows, shape (L, n), with zeros outside a mini-batch.
        shares: w of the rows that are followed, shape (m,); None for ones.
        ratio: α.
    """
    width, (end, _, followed) = len(direction), at.own.shape
    earlier = (influence(at) @ at.own.flatten(1)).reshape(width, end, followed)
    if shares is not None:
        earlier = earlier * shares
    at_rows = jacobians.permute(1, 2, 0)  # (L, L, m)
    own = at.own.new_zeros(end + width, end + width, followed)
    own[:end, :end] = at.own
    own[end:, :end] = (at_rows.unsqueeze(2) * earlier).sum(1)
    own[end:, end:] = at_rows
    now = own[end:] if shares is None else own[end:] * shares  # D_ts
    gamma = ratio * now.mean(2)  # Γ_ts, (L, (K + 1) L)
    # Q_ts = mean of w Σ_ab D_ta W_ab D_sbᵀ, (L, (K + 1) L)
    spread = _bordered(at.spread, *_covariance(at))
    answers = ratio / followed * ((spread @ now).flatten(1) @ own.flatten(1).T)
    strength = direction.square().mean().sqrt()  # φ_t
    phantom = torch.cat([at.phantom, strength.unsqueeze(0)])
    driving = answers + strength * torch.kron(phantom, _eye(width, answers))
    driving = _bordered(at.driving, driving[:, :-width], driving[:, -width:])
    moved = torch.cat([at.moved, at.last.transpose(0, 1)], 1)
    moved = pad(moved, (0, width))  # A_rs for r, s ≤ t
    pulled = at.spectrum[:, None, None] * (gamma @ moved)
    pulled[:, :, -width:] += _eye(width, pulled)
    last = pad(at.last, (0, width))
    slots = tuple(
        pad(slot, (0, width)) if slot.shape == at.last.shape else slot for slot in at.slots
    )
    following = at._replace(
        sizes=pad(at.sizes, (0, 1), value=1),
        past=torch.cat([at.past, direction]),
        tilt=pad(at.tilt, (0, 0, 0, width)),
        own=own,
        moved=moved,
        last=last,
        slots=slots,
        phantom=phantom,
        driving=driving,
        spread=spread,
    )
    return following, pulled.transpose(0, 1)


def move(at: Responses, pulled: Tensor, rule: LinearRule, step: int, scale: float) -> Responses:
    """Move A as the rule moves θ."""
    flat = tuple(slot.flatten(1) if slot.shape == at.last.shape else slot for slot in at.slots)
    last, slots = rule(at.last.flatten(1), pulled.flatten(1), flat, step, scale)
    kept = tuple(
        slot.reshape(at.last.shape) if slot.shape == last.shape else slot for slot in slots
    )
    return at._replace(last=last.reshape(at.last.shape), slots=kept)


def measure(at: Responses, probes: Probes, n: int) -> Responses:
    """Take A from what the probes show: A_t = P̄_t (I + D̄ A)⁻¹."""
    answers = at.own.mean(2) @ at.moved[0]
    system = _eye(len(answers), answers) + answers
    last = torch.linalg.solve(system.T, measuring.traces(probes, n).T).T
    return at._replace(last=last.unsqueeze(1), probes=probes)


def _covariance(at: Responses) -> tuple[Tensor, Tensor]:
    """W_ts for earlier s, shape (L, K L), and W_tt."""
    left = torch.einsum("s,lsk->lsk", at.spectrum.square() / len(at.spectrum), at.last @ at.driving)
    return torch.einsum("lsk,srk->lr", left, at.moved), torch.einsum("lsk,msk->lm", left, at.last)


def _eye(width: int, like: Tensor) -> Tensor:
    return torch.eye(width, dtype=like.dtype, device=like.device)


def _bordered(matrix: Tensor, row: Tensor, corner: Tensor) -> Tensor:
    """A symmetric matrix with one more row of blocks and its transpose."""
    return torch.cat([torch.cat([matrix, row.T], 1), torch.cat([row, corner], 1)])


def _grouped(at: Responses) -> Responses:
    """Join neighbouring groups of steps that are long ago."""
    sizes = at.sizes.tolist()
    if sizes[-ALONE:] != [1] * ALONE:
        return at
    joined: list[list[int]] = []
    since = sum(sizes)
    for k, size in enumerate(sizes):
        since -= size
        if joined and len(joined[-1]) == 1 and APART * (sizes[k - 1] + size) <= since:
            joined[-1].append(k)
        else:
            joined.append([k])
    like, width = at.own, len(at.last)
    sums = like.new_zeros(len(joined), len(sizes))
    for group, members in enumerate(joined):
        sums[group, members] = 1
    totals = (sums @ at.sizes.to(like)).round()
    means = sums * at.sizes.to(like) / totals[:, None]
    eye = _eye(width, like)
    sums_of, means_of = torch.kron(sums, eye), torch.kron(means, eye)
    own = (sums_of @ at.own.flatten(1)).reshape(-1, *at.own.shape[1:])
    before = _centres(at.sizes).to(like)
    moments = sums * (before - (means @ before)[:, None])
    return at._replace(
        sizes=totals.to(at.sizes),
        past=sums_of @ at.past,
        tilt=sums_of @ at.tilt + torch.kron(moments, eye) @ at.past,
        own=means_of @ own,
        moved=sums_of @ at.moved @ means_of.T,
        last=at.last @ means_of.T,
        slots=tuple(
            slot @ means_of.T if slot.shape == at.last.shape else slot for slot in at.slots
        ),
        phantom=sums @ at.phantom,
        driving=sums_of @ at.driving @ sums_of.T,
        spread=sums_of @ at.spread @ sums_of.T,
        probes=at.probes and measuring.grouped(at.probes, means, sums),
    )


def _within_memory(at: Responses, most: int) -> Responses:
    """Follow half of the rows, or of the columns, if the responses of all have become large."""
    if _bytes(at.own) > most and len(at.rows) >= 2 * FEWEST:
        half = _half(at.own[-len(at.last) :].flatten(0, 1).T)
        at = at._replace(rows=at.rows[half], own=at.own[:, :, half].contiguous())
    if at.columns is not None and _bytes(at.moved) > most and len(at.columns) >= 2 * FEWEST:
        at = at._replace(
            columns=at.columns[::2],
            spectrum=at.spectrum[::2],
            moved=at.moved[::2],
            last=at.last[:, ::2],
            slots=tuple(slot[:, ::2] if slot.ndim == 3 else slot for slot in at.slots),
        )
    return at


def _half(last: Tensor) -> Tensor:
    """Half of the rows: of any two that are next to each other along the main direction, one."""
    centred = last - last.mean(0)
    along = centred[centred.square().sum(1).argmax()]
    for _ in range(3):
        along = (centred @ along) @ centred
        along = along / along.norm().clamp_min(torch.finfo(along.dtype).tiny)
    place = (centred @ along).argsort(stable=True)
    kept = torch.arange(len(last), device=last.device) % 4
    return place[(kept == 0) | (kept == 3)].sort().values


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
