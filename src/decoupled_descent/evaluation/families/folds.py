"""Folds, for all models that have no formula: they are fitted without each of ten folds."""

from __future__ import annotations

from typing import Any

import numpy as np

from decoupled_descent.evaluation.families.interface import LeftOut
from decoupled_descent.evaluation.foreign import Foreign

#: As many folds, if there are as many rows or groups.
FOLDS = 10


def by_folds(foreign: Foreign, reason: str = "", seed: int = 0) -> LeftOut:
    """Predict the rows of each fold by a model of the others, in parallel by joblib."""
    from joblib import Parallel, delayed

    parts = _folds(foreign, seed)
    said = Parallel()(delayed(_fold)(foreign, out) for out in parts)
    predictions = np.empty((foreign.task.n, *said[0].shape[1:]), said[0].dtype)
    for out, own in zip(parts, said, strict=True):
        predictions[out] = own
    return LeftOut(predictions, "folds", refits=len(parts), reason=reason)


def _fold(foreign: Foreign, out: Any) -> Any:
    return foreign.predict(foreign.without(out), out)


def _folds(foreign: Foreign, seed: int) -> list[Any]:
    """Rows of each fold: each class in all folds, whole groups in one."""
    from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

    task = foreign.task
    count = min(FOLDS, len(task.units))
    options = {"n_splits": count, "shuffle": True, "random_state": seed}
    rows = np.zeros(task.n)
    if task.classes is None:
        splitter = KFold(**options) if task.groups is None else GroupKFold(**options)
        return [test for _, test in splitter.split(rows, groups=task.groups)]
    if task.groups is not None:
        splitter = StratifiedGroupKFold(**options)
        return [out for _, out in splitter.split(rows, task.labels, task.groups) if len(out)]
    rarest = int(np.bincount(task.labels).min())
    if rarest < 2:
        raise ValueError(
            f"y has a class with {rarest} row: without it, no model knows the class; drop it, or "
            "merge it with another"
        )
    options["n_splits"] = max(2, min(count, rarest))
    return [test for _, test in StratifiedKFold(**options).split(rows, task.labels)]
