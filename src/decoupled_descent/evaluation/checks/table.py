"""What checks read from a table: columns that explain its target, and groups of similar rows."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import fdtrc

Floats = NDArray[np.float64]

#: With more rows than this, or more numbers, a random sample of the rows is used: 17 MB at most,
#: unless FEW_ROWS rows have more. A few copies of it are made.
MOST_ROWS, MOST_NUMBERS, FEW_ROWS = 5000, 2**21, 200
#: With fewer different rows, a column explains the target too easily by chance.
FEWEST_ROWS = 10
#: Sorted values are processed in pieces of about this many numbers, which fit into the cache.
NUMBERS = 2**15
#: A column of whole numbers with more values than this, but at most one per two rows, may say which
#: rows belong together.
MOST_LEVELS = 20
#: The most columns that a sentence names.
NAMED = 5
#: Groups are similar if their intraclass correlation has a p-value below this.
SIGNIFICANT = 0.01


@dataclass(frozen=True)
class Table:
    """A table as its owner knows it, for checks that need no run.

    Attributes:
        names: Of the columns that the model uses.
        values: One number for each row and column, equal where values of a column are, (n, c).
        targets: Numbers, or an indicator of each class, (n, K).
        identifiers: Columns that the model does not use, and that may say which rows belong
            together: pairs of a name and a code for each row.
        interrupted: Whether training was interrupted.
        missing: Parts of the report that were left out for this reason.
        doubts: Why the model may answer another question than its owner has, in sentences.
    """

    names: Sequence[str]
    values: Floats
    targets: Floats
    identifiers: Sequence[tuple[str, NDArray[Any]]] = ()
    interrupted: bool = False
    missing: Sequence[str] = ()
    doubts: Sequence[str] = ()
    traits: frozenset[str] = frozenset()
    run: None = None

    @property
    def table(self) -> Table:
        """The table, under the same name as in other evidence."""
        return self


def sample_size(columns: int) -> int:
    """The most rows of a table with this many columns that are looked at.

    Example:
        >>> sample_size(10), sample_size(10_000), sample_size(10**6)
        (5000, 209, 200)
    """
    return max(FEW_ROWS, min(MOST_ROWS, MOST_NUMBERS // max(1, columns)))


class Leaks(NamedTuple):
    """Columns each of which alone explains the target, or at least the one that explains most."""

    names: list[str]
    largest: float  # share of the variance that one of them explains
    may_be_group: bool  # whether there is one, whose values may number patients or things


def leaks(table: Table, limit: float) -> Leaks | None:
    """Return the columns that explain at least this share of the target's variance."""
    values, targets = table.values, table.targets
    most = sample_size(values.shape[1])
    if len(values) > most:
        chosen = np.sort(np.random.default_rng(0).choice(len(values), most, replace=False))
        values, targets = values[chosen], targets[chosen]
    if not values.shape[1]:
        return None
    once = _first_of_duplicates(values)  # any column identifies duplicate rows
    values, targets = values[once], targets[once]
    if len(values) < FEWEST_ROWS:
        return None
    shares = explained_shares(values, targets)
    columns = np.flatnonzero(shares >= min(limit, shares.max()))
    alone = len(columns) == 1 and _may_be_group(values[:, columns[0]])
    return Leaks(
        [str(table.names[k]) for k in columns.tolist()], max(0.0, float(shares.max())), alone
    )


def _first_of_duplicates(values: Floats) -> NDArray[np.intp]:
    """The first of each set of equal rows, by their bytes."""
    rows = np.ascontiguousarray(values + 0.0)  # −0 is 0
    bytes_ = rows.view(np.dtype((np.void, rows.itemsize * rows.shape[1])))[:, 0]
    return np.unique(bytes_, return_index=True)[1]


def _may_be_group(values: Floats) -> bool:
    different = len(np.unique(values))
    return bool((values == np.round(values)).all()) and MOST_LEVELS < different <= len(values) / 2


def explained_shares(values: Floats, targets: Floats) -> Floats:
    """Share of the target's variance that rows next to each other in a column explain, (c,).

    Every row is predicted by the mean of the other rows with the same value, or, if there is no
    other, by the mean over the next smaller and the next larger value.

    Args:
        values: One number for each row and column, (n, c).
        targets: Of the same rows, (n, K).
    """
    n, columns = values.shape
    variance = float(np.square(targets - targets.mean(0)).sum())
    if variance <= 0 or n < 2:
        return np.zeros(columns)
    size = max(1, NUMBERS // (n * targets.shape[1]))
    parts = [values[:, start : start + size] for start in range(0, columns, size)]
    errors = np.concatenate([_neighbour_errors(part, targets) for part in parts])
    return np.where(errors < 0, 0.0, 1 - errors / variance)


def _neighbour_errors(values: Floats, targets: Floats) -> Floats:
    """Squared errors of the predictions by neighbours, summed by column; −1 for constant columns.

    The sorted columns are one long array, in which equal values of a column are a run.
    """
    n, columns = values.shape
    order = np.argsort(values, axis=0)
    ordered = np.take_along_axis(values, order, 0).T
    y = targets[order.T].reshape(n * columns, -1)
    begins = np.ones((columns, n), dtype=bool)
    begins[:, 1:] = ordered[:, 1:] != ordered[:, :-1]
    starts = np.flatnonzero(begins)
    column = starts // n
    counts = np.diff(np.append(starts, n * columns))
    sums = np.add.reduceat(y, starts)
    means = sums / counts[:, None]
    first, last = np.diff(column, prepend=-1) > 0, np.diff(column, append=columns) > 0
    below, above = np.roll(means, 1, 0), np.roll(means, -1, 0)
    below[first], above[last] = above[first], below[last]  # at the ends there is one neighbour
    run = np.repeat(np.arange(len(starts)), counts)
    others = (sums[run] - y) / np.maximum(counts[run] - 1, 1)[:, None]
    guess = np.where(counts[run][:, None] == 1, ((below + above) / 2)[run], others)
    errors = np.square(y - guess).sum(1).reshape(columns, n).sum(1)
    constant = np.bincount(column, minlength=columns) < 2
    return np.where(constant, -1.0, errors)


class Similarity(NamedTuple):
    """The intraclass correlation of rows in groups, and its p-value."""

    correlation: float
    p_value: float


def intraclass_correlation(targets: Floats, groups: NDArray[Any]) -> Similarity:
    r"""Return the intraclass correlation of the rows in groups, and its p-value.

    .. math:: \rho = (F - 1)/(F - 1 + m)

    F is the ratio of the variances between and within groups, m the mean size of a group.
    """
    _, codes, sizes = np.unique(groups, return_inverse=True, return_counts=True)
    sums = np.stack([np.bincount(codes, column) for column in targets.T], axis=1)
    means = (sums / sizes[:, None])[codes]
    between, within = np.square(means - targets.mean(0)).sum(), np.square(targets - means).sum()
    a, b = len(sizes) - 1, len(targets) - len(sizes)
    ratio = float(between / a / max(within / b, 1e-300))
    degrees = max(1, targets.shape[1] - 1)
    correlation = max(0.0, (ratio - 1) / (ratio - 1 + len(targets) / len(sizes)))
    return Similarity(correlation, float(fdtrc(a * degrees, b * degrees, ratio)))


def most_similar(table: Table) -> tuple[str, float] | None:
    """The identifier whose rows are most similar, and their correlation; 0 if it may be chance."""
    if not table.identifiers:
        return None
    tests = {name: intraclass_correlation(table.targets, k) for name, k in table.identifiers}
    similar = {name: one.correlation * (one.p_value < SIGNIFICANT) for name, one in tests.items()}
    return max(similar.items(), key=lambda one: one[1])


def listed(names: Sequence[str]) -> str:
    """Names of columns in a sentence.

    Example:
        >>> listed(["a", "b"])
        "'a', 'b'"
    """
    rest = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(map(repr, names[:NAMED])) + rest


def drop_options(names: Sequence[str]) -> str:
    """Options of the command line that leave columns out.

    Example:
        >>> drop_options(["a b", "c"])
        "--drop 'a b' --drop c"
    """
    return " ".join(f"--drop {shlex.quote(name)}" for name in names)
