"""Interleaved timing, and one table of ratios at the end."""

from __future__ import annotations

import json
import platform
import random
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import pytest
import torch
from rich.console import Console
from rich.table import Table

#: Other tenants of a shared machine slow everything down, small operations most. Beside all rounds,
#: this share of them with the shortest time in total tells what the machine does when left alone.
QUIET = 0.25
RESULTS = Path(".benchmarks/ratios.json")
_ratios: list[dict[str, object]] = []


class Times:
    """Seconds per step, contender by contender and round by round."""

    def __init__(self, seconds: dict[str, list[float]]) -> None:
        self.seconds = seconds
        totals = [sum(turns) for turns in zip(*seconds.values(), strict=True)]
        by_total = sorted(range(len(totals)), key=totals.__getitem__)
        self.quiet_rounds = by_total[: max(1, round(QUIET * len(totals)))]

    def ratio(self, ours: str, rival: str) -> tuple[float, float]:
        """Return the ratio of two medians, over all rounds and over the quiet ones."""
        a, b = self.seconds[ours], self.seconds[rival]
        quiet = [[values[i] for i in self.quiet_rounds] for values in (a, b)]
        return median(a) / median(b), median(quiet[0]) / median(quiet[1])


@pytest.fixture
def race(benchmark):
    """Time contenders in turn, round after round, so that they share whatever the machine does.

    ``race(contenders, rounds, burst)`` returns their times; ``race.ratio(…)`` records one line of
    the final table. A turn is ``burst`` steps in a row, as in training: a
    single step would also pay for what the rival before it did to the caches, and for waking the
    second core if the rival had let it sleep.
    """

    def run(contenders: dict[str, Callable[[], object]], rounds: int = 60, burst: int = 1) -> Times:
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
        benchmark.extra_info.update({f"{k} (ms)": 1e3 * median(v) for k, v in kept.items()})
        return Times(kept)

    def ratio(
        size: str, what: str, values: tuple[float, float | None], target: float | None = None
    ) -> None:
        value, quiet = values
        row = {"size": size, "ratio": what, "value": value, "quiet": quiet, "target": target}
        _ratios.append(row)

    run.ratio = ratio
    return run


def pytest_terminal_summary(terminalreporter):
    if not _ratios:
        return
    table = Table(title="ratios of median times, measured in the same run")
    for column in ("size", "ratio", "value", "quiet rounds", "target", ""):
        table.add_column(column, justify="left" if column in ("size", "ratio", "") else "right")
    for row in _ratios:
        target = row["target"]
        met = "" if target is None else "met" if row["value"] <= target else "MISSED"
        shown = "" if target is None else f"≤ {target:g}"
        quiet = "" if row["quiet"] is None else f"{row['quiet']:.2f}"
        table.add_row(row["size"], row["ratio"], f"{row['value']:.2f}", quiet, shown, met)
    Console(width=120).print(table)
    RESULTS.parent.mkdir(exist_ok=True)
    machine = {"threads": torch.get_num_threads(), "processor": platform.machine()}
    RESULTS.write_text(json.dumps({"machine": machine, "ratios": _ratios}, indent=1))
    terminalreporter.write_line(f"ratios saved to {RESULTS}")
