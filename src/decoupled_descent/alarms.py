r"""The numbers behind a diagnosis: what train rows and a finished run show, in float64.

What they mean, and from where on they matter, is in :mod:`decoupled_descent.diagnostics`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.curvature.smoothed import KinkWarning
from decoupled_descent.data.gram import Gram
from decoupled_descent.data.rows import Rows
from decoupled_descent.objective import Objective
from decoupled_descent.training import Run

#: Two rows are twins when ‖x_i − x_j‖² is below this share of ‖x_i‖² + ‖x_j‖² …
TWIN = 0.02
#: … and below this share of what the nearest of n neighbours should have: see ``twin_share``.
UNUSUAL = 0.1
#: At most this many rows are compared with all others.
COMPARED = 2000
#: Real labels are sorted into this many groups of rows, of at least this size.
GROUPS, GROUP_ROWS = 10, 20


class Seen(NamedTuple):
    """A run at its best step.

    Attributes:
        h: Pre-activations that the train error is taken at, shape (n, L).
        direction: ∇_hΨ there, or what replaces it, shape (n, L).
        jacobian: J̄, shape (L, L).
        losses: Row losses whose mean is the train error, shape (n,).
        stderr: The standard error of that mean; never 0.
        correction: Mean loss at h minus mean loss at plain Xθ, in standard errors.
        head: Train error minus mean loss at h with the head itself: what folds have found.
    """

    h: Tensor
    direction: Tensor
    jacobian: Tensor
    losses: Tensor
    stderr: float
    correction: float
    head: float


def look(run: Run, rows: Rows) -> Seen:
    """Evaluate a run once more at its best step.

    Args:
        run: The run.
        rows: What it was trained on.

    Returns:
        What is seen there.
    """
    state, objective = run.best_state, run.objective
    plain = rows.X.double() @ state.theta.double().T
    h = run.best_preactivations.double()
    y = rows.y.double() if rows.y.is_floating_point() else rows.y
    head = {name: value.double() for name, value in state.head.items()}
    g = getattr(run.algorithm, "g", None)
    with warnings.catch_warnings():  # gradient descent has had no use for J̄ so far
        warnings.simplefilter("ignore", KinkWarning)
        found = objective.derivatives(h, y, head, g=g, head=False)
    assert found.jacobian is not None
    losses, n = run.best_losses.double(), rows.n
    spread = float(losses.std()) if n > 1 else 0.0
    stderr = max(spread / math.sqrt(n), 1e-12 * (1 + abs(float(losses.mean()))))
    with torch.no_grad():
        before = float(objective.losses(plain, y, head).mean())
    at_h = float(found.loss.mean())
    corrected = (at_h - before) / stderr
    by_folds = (float(losses.mean()) - at_h) / stderr
    return Seen(h, found.direction, found.jacobian, losses, stderr, corrected, by_folds)


def label_groups(rows: Rows, objective: Objective | None, task: str | None) -> tuple[Tensor, bool]:
    """Sort rows into classes, or into groups of like response.

    Args:
        rows: The data.
        objective: Its loss says whether labels are classes, unless ``task`` does.
        task: ``"classification"``, ``"regression"`` or None.

    Returns:
        The group of each row, shape (n,), and whether groups are classes.
    """
    y = rows.y if rows.y.ndim == 1 else rows.y[:, 0].contiguous()
    values, codes, counts = torch.unique(y, return_inverse=True, return_counts=True)
    classes = task == "classification"
    if task is None:
        loss = None if objective is None else objective.loss.name
        few = len(values) <= max(2, rows.n // GROUP_ROWS) and rows.y.ndim == 1
        whole = bool((values == values.round()).all())
        classes = loss == "cross_entropy" or (few and whole and loss not in ("squared", "absolute"))
    if classes or int(counts.min()) >= GROUP_ROWS:
        return codes, classes
    count = max(1, min(GROUPS, rows.n // GROUP_ROWS))
    bounds = torch.quantile(y.double(), torch.linspace(0, 1, count + 1, dtype=torch.float64)[1:-1])
    return torch.bucketize(y.double(), bounds), False


def centred(values: Tensor, groups: Tensor) -> Tensor:
    """Subtract from each row the mean of its group."""
    count = int(groups.max()) + 1
    sums = values.new_zeros(count, values.shape[1]).index_add_(0, groups, values)
    sizes = torch.bincount(groups, minlength=count).clamp_min(1)
    return values - (sums / sizes.unsqueeze(1))[groups]


def twin_share(X: Tensor) -> float:
    r"""Return the share of rows that have a copy, or nearly one, among the others.

    In few columns all rows lie close. If the √n-th neighbour is at a squared distance D, the first
    should be at about D n^{−1/d}, and a twin is far closer. Where √n others are at distance 0 there
    is no twin: such rows come from a discrete law, and new rows will coincide with them as well.

    Args:
        X: Features, shape (n, d).

    Returns:
        Between 0 and 1; of ``COMPARED`` rows drawn at random where there are more.
    """
    X, (n, d), found = X.double(), X.shape, 0
    if n < 3:
        return 0.0
    chosen = torch.arange(n)
    if n > COMPARED:
        chosen = torch.randperm(n, generator=torch.Generator().manual_seed(0))[:COMPARED]
    squares, rank = X.square().sum(1), math.isqrt(n - 1) + 1
    for part in torch.split(chosen.to(X.device), 256):
        sums = squares[part].unsqueeze(1) + squares
        share = 1 - 2 * (X[part] @ X.T) / sums.clamp_min(torch.finfo(X.dtype).tiny)
        share[share < 1e-12] = 0.0
        share[torch.arange(len(part), device=X.device), part] = math.inf
        usual = torch.kthvalue(share, rank, dim=1).values * n ** (-1 / d)
        found += int((share.min(1).values < (UNUSUAL * usual).clamp_max(TWIN)).sum())
    return found / len(chosen)


def norm_spread(X: Tensor, gram: Gram) -> float:
    r"""Return by how much squared norms vary beyond those of Gaussian rows of the same covariance.

    .. math:: \sqrt{\max(0, \mathrm{cv}^2 - 2\,\mathrm{tr}\,C^2/(\mathrm{tr}\,C)^2)}

    Args:
        X: Features, shape (n, d).
        gram: Its decomposition.

    Returns:
        A coefficient of variation. tr C² is freed of the noise that n rows bring to it.
    """
    n, norms = len(X), X.double().square().sum(1)
    squared = float(norms.var(correction=0)) / float(norms.mean()) ** 2
    e = gram.eigenvalues
    gaussian = 2 * max(0.0, float(e.square().sum() / e.sum() ** 2) - 1 / n)
    return math.sqrt(max(0.0, squared - gaussian))


def spectrum_share(gram: Gram, n: int, d: int) -> float:
    """Return the share of the variance in eigenvalues above the Marchenko–Pastur edge.

    Args:
        gram: The decomposition of X.
        n: Rows.
        d: Columns.

    Returns:
        Between 0 and 1; about 0 for white noise.
    """
    e = gram.eigenvalues
    edge = float(e.sum()) / d * (1 + math.sqrt(d / n)) ** 2 * (1 + 2 * min(n, d) ** (-2 / 3))
    return float(e[e > edge].sum() / e.sum())


def stein_residual(seen: Seen, groups: Tensor) -> float:
    r"""Return how far Stein's identity is from holding within groups.

    .. math:: \frac{\|\mathrm{Cov}(h,g) - \mathrm{Cov}(h)\bar J^\top\|}
       {\|\mathrm{Cov}(h,g)\| + \|\mathrm{Cov}(h)\bar J^\top\|}

    Args:
        seen: The run.
        groups: The group of each row.

    Returns:
        Between 0 and 1; what the noise of n rows brings to the numerator is taken out.
    """
    h, q = centred(seen.h, groups), centred(seen.direction - seen.h @ seen.jacobian.T, groups)
    n = len(h)
    off = h.T @ q / n
    noise = (h.square().T @ q.square() / n - off.square()).sum() / n
    expected = h.T @ h / n @ seen.jacobian.T
    size = float(expected.norm() + (off + expected).norm())
    excess = float((off.square().sum() - noise).clamp_min(0).sqrt())
    return excess / size if size > 0 else 0.0


def excess_kurtosis(h: Tensor, groups: Tensor) -> float:
    """Return the excess kurtosis within groups, averaged over the columns that vary."""
    squares = centred(h, groups).square()
    varying = squares.mean(0) > 1e-20 * (1 + h.square().mean(0))
    if not bool(varying.any()):
        return 0.0
    squares = squares[:, varying]
    return float((squares.square().mean(0) / squares.mean(0).square()).mean()) - 3


def rows_behind(losses: Tensor) -> float:
    r"""Return how many rows carry the variance of the losses, (Σδ²)²/Σδ⁴ with δ = ℓ − mean ℓ."""
    squares = (losses - losses.mean()).square()
    total = float(squares.square().sum())
    return float(squares.sum()) ** 2 / total if total > 0 else float(len(losses))


def head_optimism(run: Run, seen: Seen) -> float:
    """Return by how much the head flatters the train error, in standard errors.

    Args:
        run: The run.
        seen: What it shows.

    Returns:
        P/n for a trained head of P parameters; where folds have measured the optimism, and taken it
        out, what their heads lose by training on fewer rows.
    """
    algorithm: Any = run.algorithm
    if not getattr(algorithm, "trains_head", True):
        return 0.0
    folds = len(getattr(run.best_state, "fold_heads", ()))
    if folds > 1:
        return abs(seen.head) / (2 * (folds - 1))
    parameters = sum(value.numel() for value in run.best_state.head.values())
    return float(parameters / len(seen.losses) / seen.stderr)
