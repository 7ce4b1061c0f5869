"""Results as lines of JSON: one per model class, problem, size, data set and way."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.versus.problems import Cell
from benchmarks.versus.ways import measure

Record = dict[str, Any]
KEY = ("family", "problem", "n", "seed", "way")


def read(path: Path) -> list[Record]:
    """The records of a file; none if there is no file yet."""
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def plan(cells: Iterable[Cell], most: int | None = None) -> list[tuple[Cell, int]]:
    """Which data set of which cell comes when: all cells advance together, small ones first."""
    wanted = [
        ((seed + 1) / min(cell.replications, most or cell.replications), cell.n, seed, cell)
        for cell in cells
        for seed in range(min(cell.replications, most or cell.replications))
    ]
    return [(cell, seed) for _, _, seed, cell in sorted(wanted, key=lambda each: each[:3])]


def run(cells: Iterable[Cell], path: Path, most: int | None = None) -> Iterator[Record]:
    """Measure what the file lacks, and append it line by line.

    The first fit of a kind in a process also loads modules, so it is made once without a clock.
    """
    have = {tuple(record[name] for name in KEY) for record in read(path)}
    warm: set[tuple[str, str]] = set()
    for cell, seed in plan(cells, most):
        place = (cell.family, cell.problem, cell.n, seed)
        missing = {name: way for name, way in cell.ways(seed).items() if (*place, name) not in have}
        if not missing:
            continue
        draw = cell.draw(seed)
        if place[:2] not in warm:
            next(iter(cell.ways(seed).values()))(draw.X, draw.y)
            warm.add(place[:2])
        for name, way in missing.items():
            found = {each: _short(value) for each, value in measure(way, draw).items()}
            record = dict(zip(KEY, (*place, name), strict=True)) | found
            with path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record, ensure_ascii=False) + "\n")
            yield record


def _short(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.5g}")
