r"""Forests, grown by scikit-learn's trees on bags of our own, with out-of-bag predictions.

The out-of-bag prediction of a row averages fewer trees than the forest has, about B/e of B. It is
noisier by

.. math:: s_i^2 \Bigl(\frac{1}{B_i} - \frac{1}{B}\Bigr),

with s_i² the variance of single trees at the row and B_i the number of trees that did not see it.
The estimate of the error is corrected by this.

On many rows forests take longer than everything else, and are often of no use beside the other
members. So the first few trees have to show what the forest adds. With the residual r of a mixture
of the other members, and the difference d of the forest's predictions from the mixture's, a share w
of the forest lowers the mean squared error by 2w E(rd) − w² E(d²), at best by E(rd)²/E(d²). Both
means are estimated without bias from any number of trees: the noise of the trees has no part in
E(rd), and adds s²/B to d².
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn import config_context
from sklearn.tree import (
    DecisionTreeClassifier,
    DecisionTreeRegressor,
    ExtraTreeClassifier,
    ExtraTreeRegressor,
)

from decoupled_descent.evaluation.means import mean_with_stderr
from decoupled_descent.tables.members.bags import draw_bags
from decoupled_descent.tables.members.forest import Forest
from decoupled_descent.tables.members.interface import Floats, MemberFit, TableSize, TrainingTable
from decoupled_descent.tables.prediction.predictor import scaled_columns

#: Operations of a matrix product that take as long as one row, column and level of a tree: with
#: sorted values, and with random thresholds. A tree takes ``EACH`` in addition. Measured on 100 to
#: 20,000 rows (docs/results/tables.md).
SORTED, DRAWN, EACH = 2300.0, 300.0, 3e7
#: The number of trees of a forest, up to 1,000 rows and from 2,000 rows on: out-of-bag predictions
#: average more than a third of them.
TREES, FEWER_TREES = 200, 100
#: After so many trees it is seen what the forest adds. It is not finished if, ``ERRORS`` standard
#: errors up, it lowers the squared error of the other members by less than the share ``WORTH``. On
#: 81 fits of 100 and 400 rows this changed the error by a factor of 1.0002; on 20,000 rows a fit
#: took a third of the time.
SEEN, ERRORS, WORTH = (5, 20, 60), 2.0, 0.01


class ForestKind(NamedTuple):
    """How trees are grown."""

    name: str
    random_splits: bool  # thresholds drawn at random (extremely randomised trees)
    columns: float  # the share of the columns that are tried for a split
    leaf: int = 1  # the fewest rows of a leaf, if labels are classes
    only_useful: bool = False  # whether it is not finished if the first trees add nothing

    def suits(self, size: TableSize) -> bool:
        """Every table suits."""
        return True

    def operations(self, size: TableSize) -> float:
        """All rows take part in each level of a tree, which has about log₂ n levels."""
        visits = size.rows * math.log2(max(size.rows, 2)) * max(1.0, self.columns * size.columns)
        return trees_of(size.rows) * (visits * (DRAWN if self.random_splits else SORTED) + EACH)

    def train(self, table: TrainingTable, seed: int) -> list[MemberFit]:
        """Grow a forest, and predict its training rows out of bag."""
        fit = grow_forest(table, self, seed)
        return [] if fit is None else [fit]


#: The forests of the default mixture. Probabilities need leaves of several rows, means do not.
#: Leaves of five rows, two thirds of the columns and 200 trees matter where classes follow rules
#: with exceptions, and most columns are of no use: on drawn tables of that kind the mixture's log
#: loss is 0.95 of that with single rows, a third of the columns and 100 trees.
FORESTS = (
    ForestKind("random forest", False, 2 / 3, leaf=5),
    ForestKind("extra trees", True, 1.0),
)


def trees_of(n: int) -> int:
    """The number of trees of a forest of n rows.

    Example:
        >>> trees_of(500), trees_of(1500), trees_of(10**5)
        (200, 133, 100)
    """
    return max(FEWER_TREES, round(TREES * min(1.0, 1000 / n)))


def grow_forest(table: TrainingTable, kind: ForestKind, seed: int) -> MemberFit | None:
    """Grow a forest, and predict its training rows out of bag; None if it adds nothing."""
    count = trees_of(len(table.y))
    bags = draw_bags(table, count, seed)
    low, high = table.X.min(0).astype(np.float64), table.X.max(0).astype(np.float64)
    X = np.ascontiguousarray(scaled_columns(np.asarray(table.X, np.float64), low, high))
    classes = table.classes
    y, leaf = (table.y.numpy(), 1) if classes is None else (classes.numpy(), kind.leaf)
    seeds = np.random.default_rng([seed, 1]).integers(0, 2**31 - 1, len(bags))
    trees: list[Any] = []

    def grown(some: int) -> Forest:
        """The forest of the first trees."""
        for bag, own in zip(bags[len(trees) : some], seeds[len(trees) : some], strict=True):
            tree = _kind_of_tree(table, kind)(
                max_features=kind.columns, min_samples_leaf=leaf, random_state=int(own)
            )
            trees.append(tree.fit(X, y, sample_weight=bag * table.row_weights, check_input=False))
        arrays = _arrays(trees, table.width)
        return Forest(kind.name, **arrays, low=low, high=high, unseen=bags[:some].T == 0)

    with config_context(skip_parameter_validation=True, assume_finite=True):  # a sixth of the time
        doubted = kind.only_useful and table.mixed is not None
        if doubted and any(largest_gain(grown(some), table) < WORTH for some in SEEN):
            return None
        forest = grown(count)
    means, single, unseen = _out_of_bag(forest, table)
    excess = single * (1 / np.maximum(unseen, 1) - 1 / count)
    return MemberFit(forest, torch.from_numpy(means), torch.from_numpy(excess))


def largest_gain(forest: Forest, table: TrainingTable) -> float:
    """By which share the forest may lower the squared error of the other members' mixture.

    It is ``ERRORS`` standard errors above the estimate.
    """
    assert table.mixed is not None
    means, single, count = _out_of_bag(forest, table)
    some = count[:, 0] >= 2  # rows whose variance of trees is known
    mixed = table.mixed.numpy()[some]
    residuals, moves = table.targets.numpy()[some] - mixed, means[some] - mixed
    noise = single[some] / count[some]
    groups = None
    if table.groups is not None:
        groups = torch.unique(table.groups[torch.from_numpy(some)], return_inverse=True)[1]
    shares = torch.from_numpy(table.row_weights[some])

    def mean(values: Floats) -> tuple[float, float]:
        return mean_with_stderr(torch.from_numpy(values.sum(1)), shares, groups)

    common, stderr = mean(residuals * moves)
    largest = max(0.0, common + ERRORS * stderr)
    spread, error = mean(moves**2 - noise)[0], mean(residuals**2)[0]
    if spread <= 0:  # the trees differ by noise only, and more than that is not known yet
        return math.inf if largest > 0 else 0.0
    return largest**2 / (spread * error) if error > 0 else 0.0


def _kind_of_tree(table: TrainingTable, kind: ForestKind) -> Any:
    """The class of scikit-learn."""
    if table.loss.has_classes:
        return ExtraTreeClassifier if kind.random_splits else DecisionTreeClassifier
    return ExtraTreeRegressor if kind.random_splits else DecisionTreeRegressor


def _arrays(trees: list[Any], width: int) -> dict[str, NDArray[Any]]:
    """The nodes of all trees in common arrays."""
    sizes = [tree.tree_.node_count for tree in trees]
    roots = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    starts = np.repeat(roots, sizes)
    parts = [tree.tree_ for tree in trees]
    left, right, feature, threshold = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("children_left", "children_right", "feature", "threshold")
    )
    inner = left >= 0
    return {
        "feature": np.where(inner, feature, -1).astype(np.int32),
        "threshold": np.where(inner, threshold, 0.0),
        "left": np.where(inner, left + starts, 0).astype(np.int32),
        "right": np.where(inner, right + starts, 0).astype(np.int32),
        "value": np.concatenate([_values(tree, width) for tree in trees]),
        "roots": roots.astype(np.int64),
    }


def _values(tree: Any, width: int) -> Floats:
    """Predictions of the nodes of a tree, (nodes, C): shares of classes, or means of outputs."""
    values = tree.tree_.value
    if not hasattr(tree, "classes_"):
        means: Floats = values[:, :, 0]
        return means
    shares = np.zeros((len(values), width))
    shares[:, tree.classes_.astype(int)] = values[:, 0, :]  # a bag may lack a class
    return shares


def _out_of_bag(forest: Forest, table: TrainingTable) -> tuple[Floats, Floats, Floats]:
    """Means over the trees that did not see a row; the variance of these trees; their number.

    Without any such tree, the mean is that over all rows.
    """
    assert forest.unseen is not None
    unseen, n = forest.unseen, len(forest.unseen)
    total, squares = (np.empty((n, forest.value.shape[1])) for _ in range(2))
    for rows in forest.blocks(n):
        values = forest.value[forest.leaves(np.asarray(table.X[rows], np.float64))]
        total[rows] = np.einsum("nt,ntk->nk", unseen[rows], values)
        squares[rows] = np.einsum("nt,ntk->nk", unseen[rows], values * values)
    count = unseen.sum(1)[:, None]
    means = total / np.maximum(count, 1)
    if (count == 0).any():
        means[count[:, 0] == 0] = _usual(table)
    single = np.maximum(squares / np.maximum(count, 1) - means**2, 0.0)
    single *= count / np.maximum(count - 1, 1)
    return means, single, count


def _usual(table: TrainingTable) -> Floats:
    """The shares of the classes, or the means of the targets."""
    weights, classes = table.row_weights, table.classes
    if classes is None:
        targets = table.y.reshape(len(weights), -1).numpy()
    else:
        targets = np.eye(table.width)[classes.numpy()]
    mean: Floats = weights @ targets / weights.sum()
    return mean
