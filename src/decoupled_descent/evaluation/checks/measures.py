r"""The numbers of the checks, from the training rows and a finished run, in float64."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.checks import Target, standard_error
from decoupled_descent.evaluation.checks.modes import shares_of_modes
from decoupled_descent.objective.derivatives import RowDerivatives
from decoupled_descent.objective.objective import Objective
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gram import Gram

if TYPE_CHECKING:
    from decoupled_descent.training.run import Run

#: Principal directions that are processed at a time.
DIRECTIONS = 64
#: The most consecutive rows that are left out together.
BLOCK_ROWS = 10
#: The comparison uses random rows from this many neighbouring blocks.
NEARBY_BLOCKS = 10
#: Labels can count as sorted only if a random order would decrease this often (e⁻⁷ = 0.001).
DECREASES = 7
#: Columns that are processed at a time.
AT_A_TIME = 256
#: Rows with real labels are sorted into this many groups, of at least this size.
GROUPS, GROUP_ROWS = 10, 20


class BestStep(NamedTuple):
    """A run at its best step."""

    h: Tensor  # pre-activations at which the train error is taken, (n, L)
    direction: Tensor  # ∇_hΨ there, or what replaces it, (n, L)
    jacobian: Tensor  # J̄ as the algorithm averages it, (L, L)
    losses: Tensor  # of the rows, whose mean is the train error, (n,)
    stderr: float  # of that mean; never 0
    correction: float  # mean loss at h minus mean loss at Xθ, in standard errors
    covariance: Tensor | None = None  # of h within a mode, if the algorithm assumes it, (L, L)


def evaluate_best_step(run: Run, rows: Rows) -> BestStep:
    """Evaluate a run once more at its best step."""
    try:
        at, uncorrected = _evaluate(run, rows, torch.float64)
    except RuntimeError:  # the head or the loss has constants in the dtype of the run
        at, uncorrected = _evaluate(run, rows, rows.like.dtype)
    assert at.jacobian is not None
    losses = run.best_losses.double()
    values = rows.averaged(losses) if rows.n > 1 else losses  # one per group, if there are groups
    spread = float(standard_error(values)) if len(values) > 1 else 0.0
    stderr = max(spread, 1e-12 * (1 + abs(float(losses.mean()))))
    correction = (float(at.loss.double().mean()) - uncorrected) / stderr
    h, direction, jacobian = run.best_preactivations, at.direction, at.jacobian
    covariance = run.algorithm.mode_covariance(run.best_theta, rows)
    derivatives = (direction.double(), jacobian.double())
    return BestStep(h.double(), *derivatives, losses, stderr, correction, covariance)


def _evaluate(run: Run, rows: Rows, dtype: torch.dtype) -> tuple[RowDerivatives, float]:
    """Return the derivatives at the best step, and the mean loss at Xθ."""
    state, bound = run.best_state, run.bound
    y = rows.y.to(dtype) if rows.y.is_floating_point() else rows.y
    head = {name: value.to(dtype) for name, value in state.head.items()}
    shares = run.algorithm.row_shares(rows)
    weights = None if shares is None else (shares / shares.mean()).to(dtype)
    h = run.best_preactivations.to(dtype)
    derivatives = bound.derivatives(h, y, head, head=False, weights=weights)
    theta = state.theta.to(dtype).T
    plain = torch.cat([part.to(dtype) @ theta for _, part in rows.doubles()])
    with torch.no_grad():
        losses = bound.losses(plain, y, head)
    return derivatives, float(losses.double().mean())


def label_groups(rows: Rows, objective: Objective | None, task: str | None) -> tuple[Tensor, bool]:
    """Return the class of each row, or a group of similar response, and which of the two it is.

    This follows from the task; without one, from the loss; else from the labels: few different
    whole numbers are classes.
    """
    y = rows.y if rows.y.ndim == 1 else rows.y[:, 0].contiguous()
    values, codes, counts = torch.unique(y, return_inverse=True, return_counts=True)
    classes = task is not None and Target(task).has_classes
    if task is None:
        few = len(values) <= max(2, rows.n // GROUP_ROWS) and rows.y.ndim == 1
        integers = bool((values == values.round()).all())
        loss = None if objective is None else objective.loss
        numbers = loss is not None and loss.builtin and not loss.has_classes
        classes = (loss is not None and loss.categorical) or (few and integers and not numbers)
    if classes or int(counts.min()) >= GROUP_ROWS:
        return codes, classes
    count = max(1, min(GROUPS, rows.n // GROUP_ROWS))
    y = y.double()
    levels = torch.linspace(0, 1, count + 1, dtype=y.dtype, device=y.device)[1:-1]
    return torch.bucketize(y, torch.quantile(y, levels)), False


def centred(values: Tensor, groups: Tensor) -> Tensor:
    """Subtract from each row the mean of its group."""
    count = int(groups.max()) + 1
    sums = values.new_zeros(count, values.shape[1]).index_add_(0, groups, values)
    sizes = torch.bincount(groups, minlength=count).clamp_min(1)
    return values - (sums / sizes.unsqueeze(1))[groups]


def norm_spread(rows: Rows) -> float:
    r"""Return the excess variation of squared norms over Gaussian rows of the same covariance.

    .. math:: \sqrt{\max(0, \mathrm{cv}^2 - 2\,\mathrm{tr}\,C^2/(\mathrm{tr}\,C)^2)}

    The noise that n rows add to tr C² is subtracted.
    """
    norms, e = rows.squares, rows.gram.eigenvalues
    squared = float(norms.var(correction=0)) / float(norms.mean()) ** 2
    gaussian = 2 * max(0.0, float(e.square().sum() / e.sum() ** 2) - 1 / rows.n)
    return math.sqrt(max(0.0, squared - gaussian))


def spectrum_share(gram: Gram, n: int, d: int) -> float:
    """Return the share of the variance in eigenvalues above the Marchenko–Pastur edge."""
    e = gram.eigenvalues
    edge = float(e.sum()) / d * (1 + math.sqrt(d / n)) ** 2 * (1 + 2 * min(n, d) ** (-2 / 3))
    return float(e[e > edge].sum() / e.sum())


def stein_residual(best: BestStep, groups: Tensor) -> float:
    r"""Return the relative violation of Stein's identity within modes, between 0 and 1.

    .. math:: \frac{\|\mathrm{Cov}(h,g) - \mathrm{Cov}(h)\bar J^\top\|}
       {\|\mathrm{Cov}(h,g)\| + \|\mathrm{Cov}(h)\bar J^\top\|}

    The noise that n rows add to the numerator is subtracted. A class that is a mixture of modes
    does not violate the identity, if the algorithm assumes the covariance within modes.
    """
    shares = torch.nn.functional.one_hot(groups).double()
    if best.covariance is not None:
        shares = shares_of_modes(best.h, groups, best.covariance)
    h = _about_modes(best.h, shares)
    q = _about_modes(best.direction - best.h @ best.jacobian.T, shares)
    rows = torch.einsum("nk,nki,nkj->nij", shares, h, q)
    off = rows.mean(0)
    noise = (rows.square().mean(0) - off.square()).sum() / len(rows)
    expected = torch.einsum("nk,nki,nkj->ij", shares, h, h) / len(rows) @ best.jacobian.T
    size = float(expected.norm() + (off + expected).norm())
    excess = float((off.square().sum() - noise).clamp_min(0).sqrt())
    return excess / size if size > 0 else 0.0


def _about_modes(values: Tensor, shares: Tensor) -> Tensor:
    """Values minus their mean in each mode, shape (n, modes, columns)."""
    means = shares.T @ values / shares.sum(0).clamp_min(1e-9).unsqueeze(1)
    return values.unsqueeze(1) - means


def neighbour_correlation(best: BestStep, rows: Rows, groups: Tensor) -> float:
    r"""Return how much each row resembles the next one, in features and in gradients.

    This is the smaller of two correlations between a row and the next: of the features within
    groups (the median over principal directions) and of the gradients. A sorted table or a time
    series with independent errors shows one of them; both mean that rows belong together. With
    fewer than four directions sorted and grouped tables look alike, and 0 is returned.
    """
    gram = rows.gram
    kept = gram.eigenvalues > 1e-9 * gram.eigenvalues[-1]
    if int(kept.sum()) < 4:
        return 0.0
    gradients = best.direction - best.direction.mean(0)
    of_gradients = (gradients[1:] * gradients[:-1]).sum() / gradients.square().sum().clamp_min(
        1e-300
    )
    of_features = []
    for some in torch.split(kept.nonzero().squeeze(1), DIRECTIONS):  # all take twice X and more
        features = centred(gram.coordinates(some), groups)
        sizes = features.square().sum(0).clamp_min(1e-300)
        of_features.append((features[1:] * features[:-1]).sum(0) / sizes)
    return max(0.0, min(float(torch.cat(of_features).median()), float(of_gradients)))


class Sorting(NamedTuple):
    """What the order of a table comes from."""

    by_label: bool  # the label never changes direction
    completely: bool  # by columns too among rows of one label, or hardly any rows share a label


def sorting(y: Tensor, columns: Tensor) -> Sorting:
    """Whether a table was sorted by its label, alone or with columns, one after the other.

    Then neighbouring rows are similar because of the sorting, even if they do not belong together.
    A key is sorted if it does not change direction among rows that are equal in all keys before it.
    """
    label = y.double().unsqueeze(1)
    active = torch.ones(len(y) - 1, dtype=torch.bool, device=y.device)
    _, counts = torch.unique(y, return_counts=True)
    falls = 0.5 * (1 - float((counts.double() / len(y)).square().sum()))  # of random labels
    keys_used: list[Tensor] = []
    by_label = False
    while int(active.sum()) * falls > DECREASES:
        for keys in (label, *torch.split(columns, AT_A_TIME, 1)):
            here = keys.double().diff(dim=0)[active]
            moves = ((here >= 0).all(0) | (here <= 0).all(0)) & (here != 0).any(0)
            if bool(moves.any()):
                break
        else:
            return Sorting(by_label, False)
        keys_used.append(keys)
        active &= keys[:, int(moves.nonzero()[0])].double().diff() == 0
        by_label |= keys is label
        if by_label and len(keys_used) > 1:
            return Sorting(True, True)
    return Sorting(by_label, by_label)


def losses_left_out(run: Run, rows: Rows, groups: Tensor) -> Tensor | None:
    """Losses of rows that are left out with their group; None if the run is not at a minimum."""
    grouped = rows.with_groups(groups.to(rows.like.device))
    _, info = run.algorithm.step(run.state, grouped, run.objective)
    if not info.estimates:
        return None
    outputs = run.algorithm.outputs(run.state, info.preactivations, run.bound)
    return run.objective.loss.of(outputs, rows.y).double()


class BlocksLeftOut(NamedTuple):
    """Losses of the rows left out in blocks: with their neighbours, or with random other rows."""

    neighbours: Tensor  # shape (n,)
    random: Tensor  # shape (n,)
    size: int  # rows of a block

    def rise(self) -> Rise:
        """How much more than random rows the neighbours matter."""
        return rise_of(self.neighbours - self.random, self._blocks)

    def rise_above(self, alone: Tensor) -> Rise:
        """How much higher the losses with random rows left out are than those of rows alone."""
        return rise_of(self.random - alone, self._blocks)

    @property
    def _blocks(self) -> Tensor:
        return torch.arange(len(self.random), device=self.random.device) // self.size


class Rise(NamedTuple):
    """A mean difference of losses."""

    mean: float  # in the units of the loss
    stderr: float  # from the sums of the differences over blocks of consecutive rows


def rise_of(differences: Tensor, units: Tensor) -> Rise:
    """The mean of differences, with an error from their sums over units."""
    sums = differences.new_zeros(int(units.max()) + 1).index_add_(0, units, differences)
    return Rise(float(differences.mean()), float(sums.square().sum().sqrt()) / len(differences))


def blocks_left_out(run: Run, rows: Rows, groups: Tensor) -> BlocksLeftOut | None:
    """Leave consecutive rows out together, and as many random ones.

    For independent rows it does not matter which others of the same classes, or groups of similar
    response, are left out with them. For rows that belong together and are neighbours in the table
    it does. In a sorted table rows near each other are similar, so the random rows are taken
    nearby: each row is exchanged with one from the next ``NEARBY_BLOCKS`` blocks of its class.
    None if the run is not at a minimum, or all rows are one block.
    """
    size = max(2, min(BLOCK_ROWS, rows.n // 20))
    if rows.n <= size:
        return None
    generator, indices = torch.Generator().manual_seed(0), torch.arange(rows.n)
    order = indices.clone()
    for group in torch.unique(groups):
        for nearby in torch.split(indices[groups == group], NEARBY_BLOCKS * size):
            order[nearby] = nearby[torch.randperm(len(nearby), generator=generator)]
    near, far = (losses_left_out(run, rows, one // size) for one in (indices, order))
    return None if near is None or far is None else BlocksLeftOut(near, far, size)


def excess_kurtosis(h: Tensor, groups: Tensor) -> float:
    """Return the excess kurtosis within groups, averaged over the columns that vary."""
    squares = centred(h, groups).square()
    varying = squares.mean(0) > 1e-20 * (1 + h.square().mean(0))
    if not bool(varying.any()):
        return 0.0
    squares = squares[:, varying]
    return float((squares.square().mean(0) / squares.mean(0).square()).mean()) - 3
