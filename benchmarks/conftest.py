"""Interleaved timing, and one table of ratios at the end."""

from __future__ import annotations

import json
import platform
import random
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console
from rich.table import Table

RESULTS = Path(".benchmarks/ratios.json")
_ratios: list[dict[str, object]] = []


@pytest.fixture
def race(benchmark):
    """Time contenders in turn, round after round, so that they share whatever the machine does.

    ``race(contenders, rounds, burst)`` returns the median seconds of each; ``race.ratio(…)``
    records one line of the final table. A turn is ``burst`` steps in a row, as in training: a
    single step would also pay for what the rival before it did to the caches, and for waking the
    second core if the rival had let it sleep.
    """

    def run(
        contenders: dict[str, Callable[[], object]], rounds: int = 60, burst: int = 1
    ) -> dict[str, float]:
        seconds: dict[str, list[float]] = {name: [] for name in contenders}

        order, shuffle = list(contenders), random.Random(0).shuffle

        def one_round() -> None:
            shuffle(order)  # so that nobody always runs after the same neighbour
            for name in order:
                step = contenders[name]
                start = time.perf_counter()
                for _ in range(burst):
                    step()
                seconds[name].append((time.perf_counter() - start) / burst)

        warm = 5
        benchmark.pedantic(one_round, rounds=rounds, warmup_rounds=warm)
        # with --benchmark-disable there is a single round and no warm-up
        kept = {name: values[warm:] or values for name, values in seconds.items()}
        medians = {name: statistics.median(values) for name, values in kept.items()}
        benchmark.extra_info.update({f"{name} (ms)": 1e3 * m for name, m in medians.items()})
        return medians

    def ratio(size: str, what: str, value: float, target: float | None = None) -> None:
        _ratios.append({"size": size, "ratio": what, "value": value, "target": target})

    run.ratio = ratio
    return run


def pytest_terminal_summary(terminalreporter):
    if not _ratios:
        return
    table = Table(title="ratios of median times, measured in the same run")
    for column in ("size", "ratio", "value", "target", ""):
        table.add_column(column, justify="right" if column in ("value", "target") else "left")
    for row in _ratios:
        target = row["target"]
        met = "" if target is None else "met" if row["value"] <= target else "MISSED"
        shown = "" if target is None else f"≤ {target:g}"
        table.add_row(row["size"], row["ratio"], f"{row['value']:.2f}", shown, met)
    Console(width=110).print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"threads": torch.get_num_threads(), "processor": platform.machine()}
    RESULTS.write_text(json.dumps({"machine": machine, "ratios": _ratios}, indent=1))
    terminalreporter.write_line(f"ratios saved to {RESULTS}")
