r"""Leaving rows out of a model at the minimum of a sum of losses and a penalty.

The outputs are :math:`o_i = J_i β` and β minimises :math:`\sum_i ℓ_i(o_i) + ρ(β)`. One Newton step
without row i, or group i, gives

.. math:: o_i^{(-i)} = o_i + V_i (I - W_i V_i)^{-1} g_i, \quad V_i = J_i H^{-1} J_i^\top, \quad
   H = \sum_j J_j^\top W_j J_j + \nabla^2 ρ .

The penalty may have kinks: coefficients that are zero there are left out of β.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, eigh, solve_triangular

from decoupled_descent.evaluation.families.interface import NoFormulaError
from decoupled_descent.evaluation.task import Task

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]

#: Directions whose curvature is below this part of the largest are not determined by the rows.
FLAT = 1e-11
#: A row is not left out by a formula if less than this is left of 1 − WV.
ALONE = 1e-9
#: Units that change the variance of a standardised column by more than this part are left out with
#: the columns' new scales.
RESCALED = 0.1
#: A coefficient matrix of this many numbers is the largest that is factored.
MOST = 4000
#: The gradient for other rows of the same kind has entries of this many standard errors.
MISSED = 0.3
#: Pairs of this many rows enter the standard error.
PAIRED = 1000
#: The gradient G is zero at the minimum for the rows of the fit. For other rows of the same kind,
#: GᵀH⁻¹G is about Σ gᵢᵀVᵢgᵢ or more; a fit that is not quite at its minimum has a small part of it.
FOREIGN = 0.1


@dataclass(frozen=True, eq=False)
class ForeignMinimum:
    """A model at its minimum.

    Attributes:
        design: The columns, shape (n, q); output k of row i is ``design[i] @ coefficients[:, k]``.
        gradients: Derivatives of the losses by the outputs, shape (n, K).
        curvatures: Second derivatives, shape (n,) if they are the same for all outputs, which then
            do not concern each other, or (n, K, K).
        penalty: Second derivatives of the penalty, shape (q,).
        slopes: Its first derivatives, shape (q, K); None if they are not known.
        active: Which coefficients are not held at zero, shape (q, K); None for all.
        gauge: Columns that are not penalised and whose coefficients may all rise by the same
            number without any effect, as in a softmax.
        scaled: So many of the first columns were standardised. Without a unit they have another
            scale, and their coefficients in the old scale another penalty.
        kinks: The slopes of the part of the penalty with kinks, for these, shape (scaled, K).
    """

    design: Floats
    gradients: Floats
    curvatures: Floats
    penalty: Floats
    slopes: Floats | None = None
    active: NDArray[np.bool_] | None = None
    gauge: tuple[int, ...] = ()
    scaled: int = 0
    kinks: Floats | None = None

    @property
    def _is_shared(self) -> bool:
        return self.curvatures.ndim == 1

    @property
    def _places(self) -> Codes:
        """The number of each coefficient among those that move, shape (q, K); −1 for others."""
        shape = (self.design.shape[1], self.gradients.shape[1])
        active = np.ones(shape, bool) if self.active is None else self.active
        return np.where(active, np.cumsum(active.ravel()).reshape(shape) - 1, -1)

    @cached_property
    def _solved(self) -> tuple[Floats, Floats | None]:
        """``roots``, and L⁻¹ times the gradient of the whole objective."""
        hessian, sides = self._system
        count, flat = sides.shape[1], sides
        if self.slopes is not None:
            gradient = self.design.T @ self.gradients + self.slopes
            if not self._is_shared:
                gradient = gradient[self._places >= 0][:, None]
            flat = np.concatenate([sides, gradient], 1)
        solved = _divided(hessian, flat)
        width = 1 if self._is_shared else self.gradients.shape[1]
        roots = solved[:, :count].reshape(len(solved), width, -1).swapaxes(0, 1)
        return roots, solved[:, count:] if self.slopes is not None else None

    @property
    def roots(self) -> Floats:
        """Z with V_ij = Z_i Z_jᵀ, shape (K, q, n); (1, q, n) if V is the same for all outputs."""
        return self._solved[0]

    @cached_property
    def _system(self) -> tuple[Floats, Floats]:
        """The Hessian, and its columns."""
        return self._alone() if self._is_shared else self._jointly()

    def _alone(self) -> tuple[Floats, Floats]:
        """The Hessian of one output, and its columns."""
        _check_size(self.design.shape[1])
        hessian = self.design.T @ (self.curvatures[:, None] * self.design)
        hessian[np.diag_indices_from(hessian)] += self.penalty
        return hessian, self.design.T

    def _jointly(self) -> tuple[Floats, Floats]:
        """The Hessian of all outputs, and its columns."""
        places = self._places
        size, outputs = int(places.max()) + 1, places.shape[1]
        _check_size(size)
        hessian = np.zeros((size, size))
        sides = np.zeros((outputs, size, len(self.design)))
        for k in range(outputs):
            first = np.flatnonzero(places[:, k] >= 0)
            own = places[first, k]
            sides[k, own] = self.design[:, first].T
            hessian[own, own] += self.penalty[first]
            for m in range(outputs):
                second = np.flatnonzero(places[:, m] >= 0)
                weighted = self.curvatures[:, k, m, None] * self.design[:, second]
                hessian[np.ix_(own, places[second, m])] += self.design[:, first].T @ weighted
        for column in self.gauge:
            own = places[column]
            hessian[np.ix_(own, own)] += np.trace(self.curvatures.sum(0)) / outputs**2
        return hessian, np.concatenate(list(sides), 1)

    def times(self, outputs: Floats) -> Floats:
        """V times numbers of all rows, shape (n, K)."""
        if self._is_shared:
            roots = self.roots[0]
            return np.asarray(roots.T @ (roots @ outputs))
        inner = np.einsum("kqn,nk->q", self.roots, outputs)
        return np.asarray(np.einsum("kqn,q->nk", self.roots, inner))

    def solved(self, rows: list[Codes], right: Floats, transposed: bool = False) -> Floats:
        """(I − WV)⁻¹ of each unit times numbers of its rows, shape (n, K); or of its transpose."""
        result = np.empty_like(right)
        single, several = _by_size(rows)
        result[single] = self._solved_alone(single, right[single], transposed)
        for own in several:
            systems = np.eye(own.shape[1] * self._width) - self._weighted(own, self.blocks(own))
            systems = systems.swapaxes(1, 2) if transposed else systems
            result[own] = _solution(systems, self._sides(own, right)).reshape(*own.shape, -1)
        return result

    def _sides(self, own: Codes, right: Floats) -> Floats:
        """The numbers of the rows of units as their systems have them."""
        return right[own] if self._is_shared else right[own].reshape(len(own), -1, 1)

    @property
    def _width(self) -> int:
        return 1 if self._is_shared else self.gradients.shape[1]

    def blocks(self, own: Codes) -> Floats:
        """V of the rows of units of the same size, (u, s): shape (u, s, s) or (u, sK, sK)."""
        roots = self.roots[:, :, own].transpose(2, 3, 0, 1)
        roots = roots.reshape(len(own), -1, self.roots.shape[1])
        return np.asarray(roots @ roots.swapaxes(1, 2))

    def _weighted(self, own: Codes, blocks: Floats) -> Floats:
        if self._is_shared:
            return np.asarray(self.curvatures[own][:, :, None] * blocks)
        shaped = blocks.reshape(*own.shape, self._width, -1)
        return np.asarray((self.curvatures[own] @ shaped).reshape(blocks.shape))

    def _solved_alone(self, rows: Codes, right: Floats, transposed: bool) -> Floats:
        if self._is_shared:
            left = 1 - self.curvatures[rows] * self.diagonal[rows, 0, 0]
            if left.min(initial=1.0) < ALONE:
                raise NoFormulaError("a row alone decides its own prediction")
            return np.asarray(right / left[:, None])
        systems = np.eye(self._width) - self.curvatures[rows] @ self.diagonal[rows]
        systems = systems.swapaxes(1, 2) if transposed else systems
        return np.asarray(_solution(systems, right[:, :, None])[:, :, 0])

    @cached_property
    def diagonal(self) -> Floats:
        """V of each row, shape (n, K, K), or (n, 1, 1)."""
        return np.asarray(np.einsum("kqn,mqn->nkm", self.roots, self.roots))

    def _own(self, rows: list[Codes], right: Floats) -> Floats:
        """V of each unit times numbers of its rows, shape (n, K)."""
        single, several = _by_size(rows)
        result, diagonal = np.zeros_like(right), self.diagonal[single]
        if self._is_shared:
            result[single] = diagonal[:, 0] * right[single]
        else:
            result[single] = (diagonal @ right[single, :, None])[:, :, 0]
        for own in several:
            result[own] = (self.blocks(own) @ self._sides(own, right)).reshape(*own.shape, -1)
        return result

    def moves(self, task: Task) -> Floats:
        """How far the outputs of each unit move when it is left out, shape (n, K)."""
        self._check_rows(task)
        moved = self._own(task.units, self.solved(task.units, self.gradients))
        for own, scale in self._rescaled(task.units):
            moved[own] = self._with_scales(own, scale)
        if not np.isfinite(moved).all():
            raise NoFormulaError("leaving a row out has no finite effect by the formula")
        return moved

    def _rescaled(self, rows: list[Codes]) -> list[tuple[Codes, Floats]]:
        """Units that change scales of columns, with the factors, shape (scaled,)."""
        if not self.scaled or self.slopes is None:
            return []
        columns, n, result = self.design[:, : self.scaled], len(self.design), []
        total = np.square(columns).sum(0)
        largest = np.square(columns / np.sqrt(np.maximum(total, 1e-300))).max(1)
        sums = np.add.reduceat(largest[np.concatenate(rows)], _starts(rows))
        for own in [rows[far] for far in np.flatnonzero(sums >= RESCALED / 2)]:
            left, left_sum = n - len(own), -columns[own].sum(0)
            rest = (total - np.square(columns[own]).sum(0)) / left - np.square(left_sum / left)
            scale = np.where(rest > FLAT, np.sqrt(np.maximum(rest, FLAT)), 1.0)
            if np.abs(np.square(scale) - 1).max() > RESCALED:
                result.append((own, scale))
        return result

    def _with_scales(self, own: Codes, scale: Floats) -> Floats:
        """How far the outputs of a unit move by a Newton step with other scales of columns."""
        assert self.slopes is not None
        assert self.kinks is not None
        hessian, sides = self._system
        width, K = len(self.penalty), self.gradients.shape[1]
        added, pull = np.zeros(width), np.zeros((width, K))
        added[: self.scaled] = self.penalty[: self.scaled] * (scale**2 - 1)
        ridges = self.slopes[: self.scaled] - self.kinks
        pull[: self.scaled] = ridges * (scale**2 - 1)[:, None] + self.kinks * (scale - 1)[:, None]
        if self._is_shared:
            J = sides[:, own]
            system = hessian - (J * self.curvatures[own]) @ J.T + np.diag(added)
            return np.asarray(J.T @ _solution(system, J @ self.gradients[own] - pull))
        places = self._places
        J = sides.reshape(len(sides), K, -1)[:, :, own]
        weighted = np.einsum("qks,skm->qms", J, self.curvatures[own])
        system = hessian - np.einsum("qms,pms->qp", weighted, J)
        moving = places >= 0
        system[places[moving], places[moving]] += np.broadcast_to(added[:, None], places.shape)[
            moving
        ]
        side = np.einsum("qks,sk->q", J, self.gradients[own])
        side[places[moving]] -= pull[moving]
        return np.asarray(np.einsum("qks,q->sk", J, _solution(system, side)))

    def shifts(self, task: Task) -> Floats:
        r"""How far they move in addition if the shares of the classes are kept, shape (n, K).

        The other rows of the class of row i get the weight 1 + 1/(n_c − 1), as stratified folds
        would have it.
        """
        weights, one_hot = task.row_weights, task.one_hot()
        totals, result = weights @ one_hot, np.zeros_like(self.gradients)
        unit = np.arange(task.n) if task.groups is None else task.groups
        for label, own in enumerate(one_hot.T):
            mine = self.gradients * own[:, None]
            leaving = np.bincount(unit, weights * own)
            left = totals[label] - leaving
            raised = np.divide(leaving, left, out=np.zeros_like(left), where=left > 1e-12)[unit]
            result -= raised[:, None] * (self.times(mine) - self._own(task.units, mine))
        return self.solved(task.units, result, transposed=True)

    def pairs(self, task: Task, slopes: Floats) -> float:
        r"""The variance of the mean loss because each unit trains the models for the others.

        .. math:: B_{ij} = u_i^\top V_{ij} d_j, \qquad u = (I - VW)^{-1} ℓ', \qquad
           d = (I - WV)^{-1} g, \qquad \mathrm{Cov}(ℓ_i, ℓ_j) = \mathbf E[B_{ij} B_{ji}]

        Args:
            task: The rows.
            slopes: ℓ' of each row at its left-out outputs, times its weight over the mean weight,
                shape (n, K).
        """
        units = task.units
        chosen = np.random.default_rng(0).permutation(len(units))[:PAIRED]
        rows = np.concatenate([units[unit] for unit in chosen])
        code = np.repeat(np.arange(len(chosen)), [len(units[unit]) for unit in chosen])
        left = self.solved(units, slopes, transposed=True)[rows]
        right = self.solved(units, self.gradients)[rows]
        if self._is_shared:
            products = self.blocks(rows[None])[0] * (left @ right.T)
        else:
            roots = self.roots[:, :, rows]
            first = np.einsum("kqn,nk->nq", roots, left)
            products = first @ np.einsum("kqn,nk->qn", roots, right)
        size = len(chosen)
        if size < len(rows):
            member = (code == np.arange(size)[:, None]).astype(np.float64)
            products = member @ products @ member.T * (size / len(rows)) ** 2
        np.fill_diagonal(products, 0)
        centred = products - products.mean(0) - products.mean(1, keepdims=True) + products.mean()
        np.fill_diagonal(centred, 0)
        return max(0.0, float((centred * centred.T).sum()) / (size * (size - 1)))

    def _check_rows(self, task: Task) -> None:
        """Refuse rows to which the model was not fitted: their gradient is not zero."""
        missed = self._decrement()
        if missed is None:
            return
        expected = float((self.gradients * self._own(task.units, self.gradients)).sum())
        if missed <= FOREIGN * expected + 1e-12:
            return
        if self._gradient_in_stderrs() < MISSED:
            raise NoFormulaError("it is not at its minimum as precisely as a formula needs")
        raise ValueError(
            "X and y are not the rows that the model was fitted to: for them it is not at its "
            "minimum; pass X, y and sample_weight of its fit, or fit it until it converges"
        )

    def _decrement(self) -> float | None:
        """GᵀH⁻¹G of the gradient G, which is zero at the minimum; None if it is not known."""
        step = self._solved[1]
        return None if step is None else float(np.square(step).sum())

    def halves(self) -> list[Floats]:
        """The moves by each half of a random estimate; nothing is random here."""
        return []

    def _gradient_in_stderrs(self) -> float:
        """The largest entry of the gradient, in units of what it has for rows of the same kind."""
        assert self.slopes is not None
        gradient = np.abs(self.design.T @ self.gradients + self.slopes)
        spread = np.sqrt(np.square(self.design).T @ np.square(self.gradients))
        moving = self._places >= 0
        return float((gradient / np.maximum(spread, 1e-300))[moving].max(initial=0.0))


def rotated(
    design: Floats, penalty: Floats, outputs: Floats, free: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """Columns for more penalised columns than rows: as many as there are rows say the same.

    Args:
        design: The penalised columns, shape (n, q).
        penalty: Their penalties, all above 0, shape (q,).
        outputs: The part of the outputs that they make, shape (n, K).
        free: Columns that are not penalised, shape (n, r).

    Returns:
        Columns, penalties, and the slopes of the penalty.
    """
    return of_gram((design / penalty) @ design.T, outputs, free)


def of_gram(
    gram: Floats, outputs: Floats, free: Floats | None = None
) -> tuple[Floats, Floats, Floats]:
    """The same from products of rows, such as those of a kernel, shape (n, n)."""
    if len(gram) > MOST:
        raise NoFormulaError(f"{len(gram)} rows are too many for a formula in pairs of rows")
    values, vectors = eigh(gram)
    kept = values > FLAT * values.max()
    roots = np.sqrt(values[kept])
    slopes = (vectors[:, kept].T @ outputs) / roots[:, None]
    columns, penalty = vectors[:, kept] * roots, np.ones(len(roots))
    if free is None:
        return columns, penalty, slopes
    nothing = np.zeros((free.shape[1], outputs.shape[1]))
    return (
        np.concatenate([columns, free], 1),
        np.concatenate([penalty, np.zeros(free.shape[1])]),
        np.concatenate([slopes, nothing]),
    )


def _by_size(rows: list[Codes]) -> tuple[Codes, list[Codes]]:
    """The rows that are units of their own, and larger units of each size, shape (u, s)."""
    sizes: dict[int, list[Codes]] = {}
    for own in rows:
        sizes.setdefault(len(own), []).append(own)
    single = np.concatenate(sizes.pop(1, [np.zeros(0, np.int64)]))
    return single, [np.stack(each) for each in sizes.values()]


def _starts(rows: list[Codes]) -> Codes:
    """Where each unit begins when all are put one after another."""
    return np.cumsum([0, *(len(own) for own in rows[:-1])])


def _check_size(size: int) -> None:
    if size > MOST:
        raise NoFormulaError(f"{size} coefficients are too many for a formula")


def _divided(hessian: Floats, sides: Floats) -> Floats:
    """L⁻¹ times columns, with L Lᵀ = H; directions without curvature are left out."""
    try:
        lower, _ = cho_factor(hessian, lower=True)
        diagonal = np.abs(np.diag(lower))
        if diagonal.min() ** 2 > FLAT * diagonal.max() ** 2:
            return np.asarray(solve_triangular(lower, sides, lower=True))
    except np.linalg.LinAlgError:
        pass
    values, vectors = eigh(hessian)
    kept = values > FLAT * values.max()
    return np.asarray((vectors[:, kept].T @ sides) / np.sqrt(values[kept, None]))


def _solution(systems: Floats, sides: Floats) -> Floats:
    try:
        return np.asarray(np.linalg.solve(systems, sides))
    except np.linalg.LinAlgError as error:
        raise NoFormulaError("a row alone decides its own prediction") from error
