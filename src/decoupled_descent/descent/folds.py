r"""Heads that have not seen the rows they are judged on.

A head with P parameters, trained on the mean over n rows, fits those rows better than new ones by
about P/n: nothing in a high-dimensional limit, where P stays and n grows, but as much as the
standard error of the train error when n is a few hundred. So the rows are dealt into folds, and
beside the head itself one more is trained per fold, by the same rule, on all rows but those of the
fold. The loss of a row is taken with the head of its fold. Training is not changed by this: θ and
the head follow the same path with any number of folds.

θ would follow another path, though, if a row were left out of the head's training. Where the head
has many parameters for its rows, that may make up for some or all of what the folds find, so that
the truth is between the two: a weight below 1 mixes the outputs of both heads.
"""

from __future__ import annotations

from torch import Tensor

from decoupled_descent.descent.common import Descent
from decoupled_descent.objective.derivatives import Parameters
from decoupled_descent.objective.objective import HeadDirection, Objective
from decoupled_descent.rows.blocks import Rows

#: One head per fold; none where rows are judged by the head that they train.
FoldHeads = tuple[Parameters, ...]


def start(folds: int, head: Parameters, algorithm: Descent, rows: Rows) -> FoldHeads:
    """Return one copy of the head per fold, or none where it makes no difference.

    Args:
        folds: How many; 1 for none.
        head: a, by parameter name.
        algorithm: Says whether heads are trained.
        rows: The data; the i-th row is in fold i mod ``folds``.

    Returns:
        The heads.
    """
    if folds > rows.n:
        raise ValueError(f"folds={folds} but X has only {rows.n} rows; use fewer folds")
    if folds == 1 or not head or not algorithm.trains_head:
        return ()
    return tuple({name: value.clone() for name, value in head.items()} for _ in range(folds))


def judge(
    heads: FoldHeads,
    h: Tensor,
    rows: Rows,
    objective: Objective,
    algorithm: Descent,
    f: HeadDirection | None,
    mixed: tuple[Parameters, float] | None = None,
) -> tuple[Tensor, FoldHeads]:
    r"""Take losses with the heads of other folds, and train these heads.

    .. math:: \Psi_i = \Psi(h_i, y_i, a^{(b_i)}), \qquad
       a^{(b)} \leftarrow \gamma_0 a^{(b)} - \gamma_1 \langle f(h_j, y_j, a^{(b)})\rangle_{b_j\ne b}

    Args:
        heads: One per fold.
        h: Pre-activations, shape (n, L).
        rows: The data.
        objective: Ψ.
        algorithm: Gives γ₀ and γ₁.
        f: Replaces ∇_aΨ.
        mixed: The head itself and the weight of the others beside it; None to leave it out.

    Returns:
        The losses, shape (n,), and the heads after the update.
    """
    losses, means = objective.held_out(h, rows.y, heads, f)
    moved = [algorithm.step_head(head, mean) for head, mean in zip(heads, means, strict=True)]
    if mixed is not None:
        losses = objective.losses_of(outputs(heads, h, objective, mixed), rows.y)
    return losses, tuple(moved)


def outputs(
    heads: FoldHeads,
    h: Tensor,
    objective: Objective,
    mixed: tuple[Parameters, float] | None = None,
) -> Tensor:
    """Evaluate every row with the head of its fold.

    Args:
        heads: One per fold.
        h: Pre-activations, shape (n, L).
        objective: Ψ.
        mixed: The head itself and the weight of the others beside it; None to leave it out.

    Returns:
        Outputs, shape (n,) or (n, K).
    """
    parts = [objective.pure_head(h[fold :: len(heads)], head) for fold, head in enumerate(heads)]
    together = parts[0].new_empty(len(h), *parts[0].shape[1:])
    for fold, part in enumerate(parts):
        together[fold :: len(heads)] = part
    if mixed is None:
        return together
    head, weight = mixed
    return objective.pure_head(h, head).lerp(together, weight)
