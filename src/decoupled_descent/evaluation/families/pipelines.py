"""Pipelines: the last step is left out on what the earlier steps give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.interface import Family, LeftOut, NoFormulaError
from decoupled_descent.evaluation.task import Task
from decoupled_descent.quiet import ignoring


class Pipeline(Family):
    """A pipeline. That its earlier steps saw each row is corrected by refits of all steps.

    Steps that use the labels, such as a selection of columns, are another matter: a few rows change
    which columns are selected, and with them their own predictions completely. Four refits mostly
    miss these rows.
    """

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Leave rows out of the last step."""
        from decoupled_descent.evaluation.families import family_of

        last = model.steps[-1][1]
        family = family_of(last)
        if family is None:
            raise NoFormulaError(f"{type(last).__name__} has no formula")
        X = model[:-1].transform(task.X) if len(model.steps) > 1 else task.X
        left = family.leave_out(last, task.with_rows(X, _is_standardised(model)))
        return left if len(model.steps) == 1 else replace(left, is_exact=False)

    def misses(self, model: Any, task: Task) -> str:
        """Whether earlier steps use the labels."""
        if len(model.steps) == 1 or not _use_labels(model[:-1], task):
            return ""
        return "steps before the last one use the labels"


def _is_standardised(model: Any) -> bool:
    """Whether the columns of the last step come from a ``StandardScaler``."""
    if len(model.steps) == 1:
        return False
    before = model.steps[-2][1]
    return type(before).__name__ == "StandardScaler" and bool(before.with_std)


def _use_labels(steps: Any, task: Task) -> bool:
    """Whether steps give something else if they are fitted to labels in another order.

    Steps without a seed of their own draw from the generator of NumPy. If they give something else
    than the fitted steps, both orders get the same draws, and the user's own numbers stay as they
    are.
    """
    order = np.random.default_rng(0).permutation(task.n)
    state = np.random.get_state()  # noqa: NPY002
    try:
        other = _given(steps, task, task.y[order])
        with ignoring(Warning):
            own = steps.transform(task.X)
        return not (_are_same(own, other) or _are_same(_given(steps, task, task.y), other))
    finally:
        np.random.set_state(state)  # noqa: NPY002


def _given(steps: Any, task: Task, labels: Any) -> Any:
    """What clones of steps give, with draws from the same seed."""
    from sklearn.base import clone

    np.random.seed(0)  # noqa: NPY002
    with ignoring(Warning):
        return clone(steps).fit(task.X, labels).transform(task.X)


def _are_same(one: Any, other: Any) -> bool:
    """Whether two matrices, dense or sparse, have the same numbers."""
    if np.shape(one) != np.shape(other):
        return False
    if hasattr(one, "toarray"):
        return bool(abs(one - other).max() <= 1e-9 * abs(other).max())
    one, other = np.asarray(one), np.asarray(other)
    if one.dtype.kind not in "biuf" or other.dtype.kind not in "biuf":
        return bool((one == other).all())
    return bool(np.allclose(one, other, rtol=1e-9, equal_nan=True))
