"""From records to numbers and tables.

Errors of estimates are compared in one unit, so that problems can be averaged: the error that a
test set of n fresh rows would have, n being the number of training rows. That is sd/√n for the
standard deviation sd of a row's test loss (the median over the ways of a problem).

The *sample gain* of an estimate is the number of fresh test rows that it is worth: sd² over its
mean squared error, without the noise of the rows on which the test error was measured.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from benchmarks.versus.problems import FAMILIES
from benchmarks.versus.records import Record
from benchmarks.versus.ways import Array

#: The order of ways in tables.
ORDER = (
    "one fit", "hold-out 10 %", "hold-out 20 %", "hold-out 30 %", "5-fold", "10-fold",
    "leave-one-out", "ALO", "PSIS-LOO", "GCV", "RidgeCV", "path GCV", "path leave-one-out",
    "Bellec–Tan", "DD", "Newton", "own",
)  # fmt: skip
#: Numbers of training rows.
SIZES = (100, 400, 1000, 5000)
REFERENCE = "10-fold"  # test errors are compared with those of its models

Place = tuple[str, str, int]


class Mean(NamedTuple):
    """A number and its standard error."""

    value: float
    stderr: float

    def __format__(self, spec: str) -> str:
        shown = format(self.value, spec).replace("-", "−")
        if math.isnan(self.stderr):
            return shown
        return f"{shown} ± {format(self.stderr, spec.lstrip('+'))}"


class Row(NamedTuple):
    """One way on one problem."""

    way: str
    count: int
    test: Mean
    bias: Mean  # estimate − test error
    miss: Mean  # root mean square of it
    relative: Mean  # the same in units of sd/√n
    noise: float  # mean square error of the test errors, in units of sd²/n
    z: float  # root mean square of the miss over its standard error
    cost: float  # processor time over that of one fit, median
    ratio: Mean  # test error over the reference's, on the same data sets


def mean(values: Array) -> Mean:
    count = len(values)
    stderr = float(np.std(values, ddof=1) / math.sqrt(count)) if count > 1 else math.nan
    return Mean(float(np.mean(values)), stderr)


def root(squares: Mean) -> Mean:
    """The square root of a mean of squares, with its standard error to first order."""
    value = math.sqrt(squares.value)
    return Mean(value, squares.stderr / (2 * value) if value else math.nan)


def cells(records: Iterable[Record]) -> dict[Place, list[Row]]:
    """The rows of every problem and size."""
    found: dict[Place, dict[str, dict[int, Record]]] = defaultdict(lambda: defaultdict(dict))
    for record in records:
        place = record["family"], record["problem"], record["n"]
        found[place][record["way"]][record["seed"]] = record
    judged = {place: ways for place, ways in found.items() if set(ways) - {"one fit"}}
    return {place: _rows(ways, place[2]) for place, ways in judged.items()}


def _rows(ways: dict[str, dict[int, Record]], n: int) -> list[Row]:
    spreads = [r["test_sd"] for way in ways for r in ways[way].values() if way != "one fit"]
    unit = float(np.median(spreads)) / math.sqrt(n)
    single, reference = ways.get("one fit", {}), ways.get(REFERENCE, {})
    return [_row(way, ways[way], unit, single, reference) for way in sorted(ways, key=ORDER.index)]


def _row(
    way: str,
    own: dict[int, Record],
    unit: float,
    single: dict[int, Record],
    reference: dict[int, Record],
) -> Row:
    column = _columns(own.values())
    miss = column("estimate") - column("test")
    squares = mean(miss**2)
    noise = np.hypot(column("estimate_se"), column("test_se"))
    shared = [seed for seed in own if seed in single]
    costs = [own[seed]["seconds"] / single[seed]["seconds"] for seed in shared]
    return Row(
        way, len(own), mean(column("test")), mean(miss), root(squares),
        root(Mean(squares.value / unit**2, squares.stderr / unit**2)),
        float(np.mean(column("test_se") ** 2)) / unit**2,
        float(np.sqrt(np.mean(_in_units(miss, noise) ** 2))),
        float(np.median(costs)) if costs else math.nan,
        _ratio(own, reference),
    )  # fmt: skip


def _in_units(miss: Array, noise: Array) -> Array:
    """Errors in standard errors; no error is 0, even if a constant model has no noise."""
    return np.divide(miss, noise, out=np.zeros_like(miss), where=miss != 0)


def _columns(records: Iterable[Record]) -> Callable[[str], Array]:
    kept = list(records)
    return lambda name: np.array([np.nan if r[name] is None else r[name] for r in kept], float)


def _ratio(own: dict[int, Record], reference: dict[int, Record]) -> Mean:
    """Ratio of mean test errors; the standard error is that of the paired differences."""
    shared = [seed for seed in own if seed in reference]
    if not shared:
        return Mean(math.nan, math.nan)
    ours, theirs = (np.array([r[seed]["test"] for seed in shared]) for r in (own, reference))
    ratio = ours.mean() / theirs.mean()
    return Mean(float(ratio), mean(ours - ratio * theirs).stderr / float(theirs.mean()))


def families(found: Iterable[Place]) -> list[str]:
    """Model classes in their usual order, for records in any order."""
    names = dict.fromkeys(family for family, _, _ in found)
    return sorted(names, key=lambda name: (*FAMILIES, name).index(name))


class Group(NamedTuple):
    """One way over the problems of a model class and a range of sizes."""

    way: str
    problems: int
    sets: tuple[int, int]  # data sets of a problem: fewest and most
    miss: Mean  # root mean square over problems, in units of sd/√n
    gain: float  # fresh test rows that the estimate is worth
    bias: Mean  # mean over problems, in the same unit
    ratio: Mean  # geometric mean of the ratios of test errors
    z: float  # root mean square over problems
    cost: float  # geometric mean


def groups(found: dict[Place, list[Row]], family: str, n: int) -> list[Group]:
    """Ways of a family over its problems with n rows.

    A way that was not tried on all of them has fewer problems; its line is to be read with care.
    """
    by_way: dict[str, list[Row]] = defaultdict(list)
    for (kind, _, rows_), rows in found.items():
        for row in rows:
            if kind == family and rows_ == n:
                by_way[row.way].append(row)
    return [_group(way, by_way[way], n) for way in ORDER if way in by_way]


def gain(rows: list[Row], n: int) -> float:
    """n over the mean over problems of squared errors without the noise of the test rows."""
    left = float(np.mean([row.relative.value**2 - row.noise for row in rows]))
    return n / left if left > 0 else math.inf


def _group(way: str, rows: list[Row], n: int) -> Group:
    units = [row.miss.value / row.relative.value for row in rows]
    squares = [
        Mean(row.relative.value**2, 2 * row.relative.value * row.relative.stderr) for row in rows
    ]
    biases = [
        Mean(row.bias.value / unit, row.bias.stderr / unit)
        for row, unit in zip(rows, units, strict=True)
    ]
    logs = [Mean(math.log(row.ratio.value), row.ratio.stderr / row.ratio.value) for row in rows]
    log = _average(logs)
    return Group(
        way, len(rows), (min(row.count for row in rows), max(row.count for row in rows)),
        root(_average(squares)), gain(rows, n), _average(biases),
        Mean(math.exp(log.value), math.exp(log.value) * log.stderr),
        float(np.sqrt(np.mean([row.z**2 for row in rows]))),
        math.exp(float(np.mean(np.log([row.cost for row in rows])))),
    )  # fmt: skip


def _average(values: list[Mean]) -> Mean:
    """The mean over problems.

    Its standard error comes from the data sets of each problem; where a problem has a single one,
    from the spread over problems.
    """
    numbers = np.array([each.value for each in values])
    noise = math.hypot(*(each.stderr for each in values)) / len(values)
    return Mean(float(numbers.mean()), mean(numbers).stderr if math.isnan(noise) else noise)


# Markdown


def number(value: float, spec: str = ".2f") -> str:
    return "–" if math.isnan(value) else format(value, spec)


def cell_tables(records: Iterable[Record]) -> str:
    """Every problem and size."""
    lines = [
        "| model | problem | n | method | data sets | test error | estimate − test error "
        "| RMS of it | in sd/√n | RMS z | cost |",
        "|---" * 11 + "|",
    ]
    for (family, problem, n), rows in sorted(cells(records).items()):
        lines += [
            f"| {family} | {problem} | {n} | {row.way} | {row.count} | {row.test:.4g} "
            f"| {row.bias:+.3f} | {row.miss:.3f} | {row.relative:.2f} | {number(row.z)} "
            f"| {number(row.cost)} |"
            for row in rows
        ]
    return "\n".join(lines)


def family_tables(records: Iterable[Record]) -> str:
    """One table per model class."""
    found = cells(records)
    lines = []
    for family in families(found):
        lines += [
            f"**{family}**\n",
            "| n | method | problems | data sets each | RMS error | sample gain | bias | RMS z "
            "| test error / 10-fold's | cost |",
            "|---" * 10 + "|",
        ]
        for n in SIZES:
            lines += [
                f"| {n} | {group.way} | {group.problems} | {span(*group.sets)} | {group.miss:.2f} "
                f"| {group.gain:.0f} | {group.bias:+.2f} | {number(group.z)} | {group.ratio:.3f} "
                f"| {fits(group)} |"
                for group in groups(found, family, n)
                if group.way != "one fit"
            ]
        lines.append("")
    return "\n".join(lines)


def span(fewest: int, most: int) -> str:
    return str(most) if fewest == most else f"{fewest}–{most}"


def fits(group: Group) -> str:
    """The cost, in single fits."""
    return number(group.cost, ".0f" if group.cost >= 9.5 else ".1f")


#: The methods of the short table: the usual ones, the best formula, and ours.
SHORT = ("hold-out 20 %", "10-fold", "ALO", "RidgeCV", "Bellec–Tan", "DD", "Newton", "own")


def short_table(records: Iterable[Record], sizes: tuple[int, ...] = (100, 1000)) -> str:
    """The error of the estimate and the cost, for all model classes in one table."""
    found = cells(records)
    lines = [
        "| model | method |" + "".join(f" n = {n}: RMS error | gain | cost |" for n in sizes),
        "|---" * (2 + 3 * len(sizes)) + "|",
    ]
    for family in families(found):
        by_size = [{each.way: each for each in groups(found, family, n)} for n in sizes]
        name = family
        for way in SHORT:
            if not any(way in ways for ways in by_size):
                continue
            cell = "".join(
                f" {ways[way].miss:.2f} | {ways[way].gain:.0f} | {fits(ways[way])} |"
                if way in ways
                else " – | – | – |"
                for ways in by_size
            )
            lines.append(f"| {name} | {way} |{cell}")
            name = ""
    return "\n".join(lines)
