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

All of these are averages over rows of the run itself. Training is not changed. The first recursion
takes T³ L³/3 operations for each row that it follows, so it follows some rows only.

Decoupled descent subtracts both sums at every step. It needs no responses.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from decoupled_descent.descent.rules import LinearRule, Slots
from decoupled_descent.descent.starts import stream
from decoupled_descent.rows.blocks import Rows

#: The number of rows whose responses are followed. With 50 of 1000 rows the estimate is off by two
#: standard errors after 80 steps, with 200 by less than half of one.
FOLLOWED = 300
#: The same where g has kinks: few rows are near one.
FOLLOWED_AT_KINKS = 1000
#: The number of columns whose responses are followed, where columns differ.
COLUMNS = 1000
#: This number of steps s of Σ_r A_tr D_rs is made in one product.
PART = 16
#: When the responses take more than this number of bytes, half of the rows, or of the columns, are
#: followed from then on, but not fewer than ``FEWEST``.
BYTES, FEWEST = 2**28, 100


class Responses(NamedTuple):
    """What the estimate carries from step to step, after t updates."""

    spectrum: Tensor  # c, the eigenvalues of the noise covariance, shape (S,)
    rows: Tensor  # the rows that are followed, shape (m,)
    past: Tensor  # ĥ_s of all rows, shape (t L, n), with zeros for rows outside a mini-batch
    own: Tensor  # D_rs of the rows that are followed, shape (t L, t, m, L)
    moved: Tensor  # A_rs(c) of all steps up to the last, shape (S, t L, t L)
    last: Tensor  # A_ts(c) of this step, shape (L, S, t L)
    slots: Slots  # what the update rule carries for it
    columns: Tensor | None = None  # the columns to which the S values of c belong


def start(
    rows: Rows, width: int, spectrum: Tensor, rule: LinearRule, columns: Tensor | None = None
) -> Responses:
    """Nothing has responded yet. Axes that will grow are empty."""
    like, count = rows.like, len(spectrum)
    followed = torch.zeros(0, dtype=torch.int64, device=like.device)
    last = like.new_zeros(width, count, 0)
    own, past = like.new_zeros(0, 0, 0, width), like.new_zeros(0, rows.n)
    moved = like.new_zeros(count, 0, 0)
    return Responses(spectrum, followed, past, own, moved, last, rule.slots(last), columns)


def drawn(what: str, total: int, count: int) -> Tensor:
    """At most ``count`` of 0 … total − 1, drawn at random and sorted."""
    order = torch.randperm(total, generator=stream(f"{what} {total}"), device="cpu")
    return order[:count].sort().values


def prepared(at: Responses, n: int, kinked: bool) -> Responses:
    """Draw the rows that are followed from all n in the first step; later, save memory."""
    if len(at.rows):
        return _within_memory(at)
    count = FOLLOWED_AT_KINKS if kinked else FOLLOWED
    followed = drawn("responses", n, count).to(at.rows)
    return at._replace(rows=followed, own=at.own.new_zeros(0, 0, len(followed), at.own.shape[3]))


def common(followed: Tensor, index: Tensor | None) -> tuple[Tensor, Tensor]:
    """Which of the rows that are followed are in a batch, and where they are in it."""
    if index is None:
        return torch.arange(len(followed), device=followed.device), followed
    inside, which = (followed[:, None] == index).nonzero(as_tuple=True)
    return inside, which


def influence(at: Responses) -> Tensor:
    """A_ts, shape (L, t L): how the pre-activations of a row contain its own ĥ_s."""
    return torch.einsum("s,lsk->lk", at.spectrum, at.last) / len(at.spectrum)


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
    width = len(direction)
    earlier = _times(influence(at), at.own)
    if shares is not None:
        earlier = earlier * shares[:, None]
    now = torch.einsum("mab,bsmc->asmc", jacobians, earlier)
    now = torch.cat([now, jacobians.permute(1, 0, 2).unsqueeze(1)], 1)  # D_ts, (L, t + 1, m, L)
    weighted = now if shares is None else now * shares[:, None]
    gamma = ratio * weighted.mean(2).flatten(1)  # Γ_ts, (L, (t + 1) L)
    moved = torch.cat([at.moved, at.last.transpose(0, 1)], 1)
    moved = pad(moved, (0, width))  # A_rs for r, s ≤ t
    pulled = at.spectrum[:, None, None] * (gamma @ moved)
    pulled[:, :, -width:] += torch.eye(width, dtype=pulled.dtype, device=pulled.device)
    last = pad(at.last, (0, width))
    slots = tuple(
        pad(slot, (0, width)) if slot.shape == at.last.shape else slot for slot in at.slots
    )
    past = torch.cat([at.past, direction])
    own = _with_step(at.own, now)
    following = at._replace(past=past, own=own, moved=moved, last=last, slots=slots)
    return following, pulled.transpose(0, 1)


def move(at: Responses, pulled: Tensor, rule: LinearRule, step: int, scale: float) -> Responses:
    """Move A as the rule moves θ."""
    flat = tuple(slot.flatten(1) if slot.shape == at.last.shape else slot for slot in at.slots)
    last, slots = rule(at.last.flatten(1), pulled.flatten(1), flat, step, scale)
    kept = tuple(
        slot.reshape(at.last.shape) if slot.shape == last.shape else slot for slot in slots
    )
    return at._replace(last=last.reshape(at.last.shape), slots=kept)


def _buffer(own: Tensor) -> Any:
    """The buffer that D is the first part of; None if there is none, as after a restart."""
    return own._base if hasattr(own._base, "steps") else None


def _times(left: Tensor, own: Tensor) -> Tensor:
    """Σ_r A_tr D_rs, shape (L, t, m, L); D_rs is zero for r < s, so it is made in parts."""
    width, (end, steps, followed, _) = len(left), own.shape
    buffer, size = _buffer(own), followed * width
    every = (own if buffer is None else buffer).flatten(1)[:end]
    parts = [
        left[:, s * width :] @ every[s * width :, s * size : min(s + PART, steps) * size]
        for s in range(0, steps, PART)
    ]
    return torch.cat([left[:, :0] @ every[:0, :0], *parts], 1).reshape(width, -1, followed, width)


def _with_step(own: Tensor, now: Tensor) -> Tensor:
    """D with one more step, shape ((t + 1) L, t + 1, m, L).

    It would take most of the time to copy D in every step. So D is the first part of a larger
    buffer, and the next step is written behind it, where no state can see it. If that place is
    taken, because another step was made from the same state, the buffer is copied.
    """
    width, (end, steps) = len(now), own.shape[:2]
    buffer = _buffer(own)
    if buffer is None or buffer.steps != steps or steps == buffer.shape[1]:
        more = max(16, steps // 2)
        buffer = pad(own, (0, 0, 0, 0, 0, more, 0, more * width))
    buffer[end : end + width, : steps + 1] = now
    buffer.steps = steps + 1
    with_step: Tensor = buffer[: end + width, : steps + 1]
    return with_step


def _within_memory(at: Responses) -> Responses:
    """Follow half of the rows, or of the columns, if the responses of all have become large."""
    if _bytes(at.own) > BYTES and len(at.rows) >= 2 * FEWEST:
        at = at._replace(rows=at.rows[::2], own=at.own[:, :, ::2].contiguous())
    if at.columns is not None and _bytes(at.moved) > BYTES and len(at.columns) >= 2 * FEWEST:
        at = at._replace(
            columns=at.columns[::2],
            spectrum=at.spectrum[::2],
            moved=at.moved[::2],
            last=at.last[:, ::2],
            slots=tuple(slot[:, ::2] if slot.ndim == 3 else slot for slot in at.slots),
        )
    return at


def _bytes(tensor: Tensor) -> int:
    return tensor.numel() * tensor.element_size()
