"""The report's last section: the error curve, the candidates and the settings of the training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.figures import error_curve
from decoupled_descent.app.report.tables import Column, Table
from decoupled_descent.app.report.text import as_text, column, number

#: The most candidates listed.
MOST_CANDIDATES = 100


def training(data: ReportData) -> dict[str, Any]:
    """The curve, the candidates and the settings."""
    of = data.training
    return {
        "candidates": _candidates(of.candidates),
        "settings": [(_name(name), value) for name, value in of.settings.items()],
        **_curve(data),
    }


def _curve(data: ReportData) -> dict[str, Any]:
    """The error over the ridges of the best features."""
    of, count = data.training, len(data.training.errors)
    lowest = number(float(of.errors[of.best_step]), 3)
    title = f"Error over {count} ridges, lowest at ridge number {of.best_step}: {lowest}"
    name = f"estimated error ({data.estimate.loss_name})"
    drawing, log = error_curve(of.errors, of.stderrs, of.best_step, name, title, "ridge number")
    return {"drawing": drawing, "log": log, "lowest": lowest}


def _candidates(candidates: Sequence[Mapping[str, Any]]) -> dict[str, Any] | None:
    """A table of the candidates; values that all of them share are listed once, below it."""
    if not candidates:
        return None
    several = len(candidates) > 1
    names = list(dict.fromkeys(name for one in candidates for name in one if name != "chosen"))
    values = {name: [one.get(name) for one in candidates] for name in names}
    alike = [name for name in names if several and len(set(map(as_text, values[name]))) == 1]
    varying = [name for name in names if name not in alike]
    written = {name: column(values[name]) for name in varying}
    rows = [
        [{"number": k + 1, "chosen": bool(one.get("chosen"))}, *(written[v][k] for v in varying)]
        for k, one in enumerate(candidates)
        if k < MOST_CANDIDATES or one.get("chosen")
    ]
    kinds = ["number" if any(map(_is_number, values[name])) else "text" for name in varying]
    named = [Column(_name(name), kind) for name, kind in zip(varying, kinds, strict=True)]
    not_listed = len(candidates) - len(rows)
    return {
        "table": Table([Column("candidate", "candidate"), *named], rows),
        "several": several,
        "alike": [(_name(name), values[name][0]) for name in alike],
        "not_listed": f"{not_listed:,}" if not_listed else "",
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _name(key: Any) -> str:
    return str(key).replace("_", " ")
