"""Pipelines: the last step is left out on what the earlier steps give."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from decoupled_descent.evaluation.families.interface import Family, LeftOut, NoFormulaError
from decoupled_descent.evaluation.task import Task


class Pipeline(Family):
    """A pipeline. That its earlier steps saw each row is corrected by refits of all steps."""

    def leave_out(self, model: Any, task: Task) -> LeftOut:
        """Leave rows out of the last step."""
        from decoupled_descent.evaluation.families import family_of

        last = model.steps[-1][1]
        family = family_of(last)
        if family is None:
            raise NoFormulaError(f"{type(last).__name__} has no formula")
        X = model[:-1].transform(task.X) if len(model.steps) > 1 else task.X
        left = family.leave_out(last, task.with_rows(X))
        return left if len(model.steps) == 1 else replace(left, is_exact=False)
