r"""The numbers behind a diagnosis: what train rows and a finished run show, in float64.

What they mean, and from where on they matter, is in :mod:`decoupled_descent.diagnostics.diagnosis`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.objective import Objective
from decoupled_descent.objective.derivatives import RowDerivatives
from decoupled_descent.objective.kinks import KinkWarning
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gram import Gram
from decoupled_descent.training.run import Run

#: Two rows are twins when ‖x_i − x_j‖² is below this share of ‖x_i‖² + ‖x_j‖² …
TWIN = 0.02
#: … and below this share of what the nearest of n neighbours should have: see ``twin_share``.
UNUSUAL = 0.1
#: … or so close that no more than this share of independent rows would be.
CHANCE = 0.01
#: At most this many rows are compared with all others.
COMPARED = 2000
#: Real labels are sorted into this many groups of rows, of at least this size.
GROUPS, GROUP_ROWS = 10, 20


class Seen(NamedTuple):
    """A run at its best step.

    Attributes:
        h: Pre-activations that the train error is taken at, shape (n, L).
        direction: ∇_hΨ there, or what replaces it, shape (n, L).
        jacobian: J̄ as the algorithm takes it, shape (L, L).
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
    try:
        found, before = _evaluate(run, rows, torch.float64)
    except RuntimeError:  # a head or a loss with constants of its own in the dtype of the run
        found, before = _evaluate(run, rows, rows.X.dtype)
    assert found.jacobian is not None
    losses, n = run.best_losses.double(), rows.n
    spread = float(losses.std()) if n > 1 else 0.0
    stderr = max(spread / math.sqrt(n), 1e-12 * (1 + abs(float(losses.mean()))))
    at_h = float(found.loss.double().mean())
    corrected = (at_h - before) / stderr
    by_folds = (float(losses.mean()) - at_h) / stderr
    h, direction, jacobian = run.best_preactivations, found.direction, found.jacobian
    seen = (h.double(), direction.double(), jacobian.double(), losses)
    return Seen(*seen, stderr, corrected, by_folds)


def _evaluate(run: Run, rows: Rows, dtype: torch.dtype) -> tuple[RowDerivatives, float]:
    """Return what the algorithm would see at its best step, and the mean loss at plain Xθ."""
    state, objective, algorithm = run.best_state, run.objective, run.algorithm
    y = rows.y.to(dtype) if rows.y.is_floating_point() else rows.y
    head = {name: value.to(dtype) for name, value in state.head.items()}
    shares = algorithm.row_shares(rows)
    with warnings.catch_warnings():  # gradient descent has had no use for J̄ so far
        warnings.simplefilter("ignore", KinkWarning)
        found = objective.derivatives(
            run.best_preactivations.to(dtype), y, head,
            g=algorithm.g, head=False, weights=None if shares is None else shares.to(dtype),
        )  # fmt: skip
    with torch.no_grad():
        plain = objective.losses(rows.X.to(dtype) @ state.theta.to(dtype).T, y, head)
    return found, float(plain.double().mean())


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
    y = y.double()
    bounds = torch.quantile(
        y, torch.linspace(0, 1, count + 1, dtype=y.dtype, device=y.device)[1:-1]
    )
    return torch.bucketize(y, bounds), False


def centred(values: Tensor, groups: Tensor) -> Tensor:
    """Subtract from each row the mean of its group."""
    count = int(groups.max()) + 1
    sums = values.new_zeros(count, values.shape[1]).index_add_(0, groups, values)
    sizes = torch.bincount(groups, minlength=count).clamp_min(1)
    return values - (sums / sizes.unsqueeze(1))[groups]


def twin_share(X: Tensor) -> float:
    r"""Return the share of rows that have a copy, or nearly one, among the others.

    In few dimensions all rows lie close. If the √n-th neighbour is at a squared distance D, the
    first should be at about D n^{−1/m}, and a twin is far closer. The dimension m, at most d, is
    read off the neighbours: rows of two numbers and a category lie in planes, however many columns
    the category fills. Where √n others are at distance 0 there is no twin: such rows come from a
    discrete law, and new rows will coincide with them as well. The same goes for rows made of
    values so frequent, column by column, that chance brings them together.

    Args:
        X: Features, shape (n, d).

    Returns:
        Between 0 and 1; of ``COMPARED`` rows drawn at random where there are more.
    """
    X, (n, d) = X.double(), X.shape
    if n < 3:
        return 0.0
    chosen = torch.arange(n, device=X.device)
    if n > COMPARED:
        order = torch.randperm(n, generator=torch.Generator().manual_seed(0))
        chosen = order[:COMPARED].to(X.device)
    rank = math.isqrt(n - 1) + 1
    distances, others = _neighbours(X, chosen, rank)
    nearest, farthest = distances[:, 0], distances[:, -1]
    m = _dimension(distances, d)
    usual = min(UNUSUAL, CHANCE ** (2 / m)) * n ** (-1 / m) * farthest
    twins = nearest < usual.clamp_max(TWIN)
    apart = (twins & (nearest > 0)).nonzero().squeeze(1)
    if len(apart) > 0:
        twins[apart] = _is_close(X, chosen, apart, others[apart])
    same = (twins & (nearest == 0)).nonzero().squeeze(1)
    if len(same) > 0:
        twins[same] = _coincidences(X, chosen[same]) < CHANCE
    return float(twins.double().mean())


def _coincidences(X: Tensor, rows: Tensor) -> Tensor:
    """How many others would equal a row, if columns were independent: n times all frequencies."""
    n = len(X)
    expected = torch.full((len(rows),), math.log(n), dtype=torch.float64, device=X.device)
    for column in X.T:
        _, which, counts = torch.unique(column, return_inverse=True, return_counts=True)
        expected += (counts.double() / n).log()[which[rows]]
    return expected.exp()


def _neighbours(X: Tensor, chosen: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return ‖x_i − x_j‖²/(‖x_i‖² + ‖x_j‖²) to the nearest others, ascending, and the nearest j."""
    squares, distances, nearest = X.square().sum(1), [], []
    for part in torch.split(chosen, 256):
        sums = squares[part].unsqueeze(1) + squares
        share = 1 - 2 * (X[part] @ X.T) / sums.clamp_min(torch.finfo(X.dtype).tiny)
        share[share < 1e-12] = 0.0
        share[torch.arange(len(part), device=X.device), part] = math.inf
        found = torch.topk(share, count, dim=1, largest=False)
        distances.append(found.values)
        nearest.append(found.indices[:, 0])
    return torch.cat(distances), torch.cat(nearest)


def _dimension(distances: Tensor, most: int) -> float:
    """Return m if neighbours grow in number with the m-th power of their distance, at most d.

    Of two octaves the one where they grow faster counts: between the other's ends may lie the way
    from one group of rows to the next.
    """
    rank, found = distances.shape[1], []
    for far in (rank, rank // 2):
        near = far // 2
        ends = distances[:, [max(near, 1) - 1, far - 1]]
        growth = (ends[:, 1] / ends[:, 0])[(ends[:, 0] > 0) & (ends[:, 1] > ends[:, 0])]
        if near > 0 and len(growth) > 0:
            found.append(2 * math.log(far / near) / float(growth.log().median()))
    return min(float(most), max(1.0, *found)) if found else float(most)


def _is_close(X: Tensor, chosen: Tensor, rows: Tensor, others: Tensor) -> Tensor:
    r"""Say which pairs are closer than chance would bring them, where they differ at all.

    Rows that share rare categories are close in most columns, and differ in the numbers as any two
    rows do. So distances are compared with those of random rows along the same m directions, of
    which the nearest of n comes within a share n^{−2/m}.
    """
    steps = X[chosen[rows]] - X[others]
    lengths = steps.square().sum(1)
    pairs = torch.stack([chosen[rows], others]).sort(0).values
    known, which = torch.unique(pairs, dim=1, return_inverse=True)
    once = torch.empty_like(known[0]).scatter_(0, which, torch.arange(len(rows), device=X.device))
    u = steps[once] / lengths[once].sqrt().unsqueeze(1)
    count, d = u.shape
    common = float((u @ u.T).square().sum()) - count
    m = min(d, max(1.0, count * (count - 1) / max(common, 1e-9))) if count > 1 else d
    variance = float((X[chosen] @ u.T).var(0).mean())
    limit = min(TWIN, (CHANCE / len(X)) ** (2 / m))
    close: Tensor = lengths < limit * 2 * m * variance
    return close


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


def neighbours_alike(seen: Seen, rows: Rows, groups: Tensor) -> float:
    r"""Return how alike rows are that stand next to each other, in features and in gradients.

    Two correlations between a row and the next, of which the smaller counts: of the features within
    groups (the median over principal directions), and of the gradients. A table sorted by its label
    shows the second only, one sorted by a column hardly the first; a time series with errors of its
    own shows the first only. Both together mean that rows were not drawn one by one.

    Args:
        seen: The run.
        rows: What it was trained on.
        groups: The group of each row.

    Returns:
        Between 0 and 1; 0 for fewer than four directions, where sorted and grouped look the same.
    """
    gram = rows.gram
    kept = gram.eigenvalues > 1e-9 * gram.eigenvalues[-1]
    if int(kept.sum()) < 4:
        return 0.0
    features = centred(gram.coordinates()[:, kept], groups)
    gradients = seen.direction - seen.direction.mean(0)
    size = features.square().sum(0), gradients.square().sum()
    alike = (features[1:] * features[:-1]).sum(0) / size[0].clamp_min(1e-300)
    erring = (gradients[1:] * gradients[:-1]).sum() / size[1].clamp_min(1e-300)
    return max(0.0, min(float(alike.median()), float(erring)))


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
        out, what their heads lose by training on fewer rows, or what was not believed of them.
    """
    algorithm: Any = run.algorithm
    if not getattr(algorithm, "trains_head", True):
        return 0.0
    folds = len(getattr(run.best_state, "fold_heads", ()))
    if folds > 1:
        unbelieved = 1 / float(algorithm.fold_weight) - 1
        return abs(seen.head) * max(1 / (2 * (folds - 1)), unbelieved)
    parameters = sum(value.numel() for value in run.best_state.head.values())
    return float(parameters / len(seen.losses) / seen.stderr)
