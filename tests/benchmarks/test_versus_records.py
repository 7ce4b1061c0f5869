"""Records are continued where they ended, and summarised by hand-made numbers."""

import math

import numpy as np
import pytest

from benchmarks.versus import summary
from benchmarks.versus.plot import STYLES, draw
from benchmarks.versus.problems import Cell, cells
from benchmarks.versus.records import plan, read, run
from benchmarks.versus.ways import Answer, Draw


def toy(n=100, replications=2, calls=None):
    def way(X, y):
        if calls is not None:
            calls.append(len(y))
        return Answer(1.0, None, lambda X, y: y)

    rows = Draw(np.zeros((n, 1)), np.zeros(n), np.zeros((4, 1)), np.array([0.0, 1.0, 2.0, 3.0]))
    ways = {"one fit": way, "10-fold": way}
    return Cell("toys", "zeros", n, lambda seed: rows, lambda seed: ways, replications)


def test_a_run_continues_its_file(tmp_path):
    path, calls = tmp_path / "records.jsonl", []
    first = list(run([toy(replications=1, calls=calls)], path))
    assert [record["way"] for record in first] == ["one fit", "10-fold"]
    assert first[0]["estimate_se"] is None
    assert first[0]["test"] == 1.5
    more = list(run([toy(replications=2, calls=calls)], path))
    assert {record["seed"] for record in more} == {1}
    assert read(path) == first + more
    assert not list(run([toy(calls=calls)], path))
    assert len(calls) == 6  # of which the first of each process is not timed


def test_all_cells_advance_together():
    order = [(cell.n, seed) for cell, seed in plan([toy(400, 2), toy(100, 4)])]
    assert order == [(100, 0), (100, 1), (400, 0), (100, 2), (100, 3), (400, 1)]
    assert len(plan([toy(400, 2), toy(100, 4)], most=1)) == 2


def test_every_cell_has_ways_and_its_own_place():
    found = list(cells())
    assert len({(cell.family, cell.problem, cell.n) for cell in found}) == len(found)
    assert {cell.n for cell in found} == set(summary.SIZES)
    assert all({"one fit", summary.REFERENCE} <= set(cell.ways(0)) for cell in found)
    assert {way for cell in found for way in cell.ways(0)} == set(summary.ORDER)
    assert {*STYLES, "one fit"} == set(summary.ORDER)


def records():
    """Two data sets of 100 rows: 10-fold misses by +0.1 and −0.3, DD by 0.1 and 0.1."""
    found = []
    for seed in (0, 1):
        for way, miss, test, seconds in (
            ("one fit", -0.5, 1.0, 2.0),
            ("10-fold", (0.1, -0.3)[seed], 1.0, 22.0),
            ("DD", 0.1, 0.9, 3.0),
        ):
            found.append(
                {
                    "family": "toys", "problem": "zeros", "n": 100, "seed": seed, "way": way,
                    "estimate": test + miss, "test": test, "test_sd": 2.0, "test_se": 0.0,
                    "estimate_se": None if way == "DD" else 0.2, "seconds": seconds,
                }
            )  # fmt: skip
    return found


def test_numbers_of_a_cell():
    rows = {row.way: row for row in summary.cells(records())["toys", "zeros", 100]}
    folds, ours = rows["10-fold"], rows["DD"]
    assert folds.count == 2
    assert folds.bias.value == pytest.approx(-0.1)
    assert folds.bias.stderr == pytest.approx(0.2)
    assert folds.miss.value == pytest.approx(math.sqrt(0.05))
    assert folds.miss.stderr == pytest.approx(0.04 / 2 / math.sqrt(0.05))
    assert folds.relative.value == pytest.approx(math.sqrt(0.05) / 0.2)  # sd/√n = 2/10
    assert folds.z == pytest.approx(math.sqrt(0.05) / 0.2)
    assert folds.cost == 11
    assert ours.ratio.value == pytest.approx(0.9)
    assert ours.ratio.stderr == pytest.approx(0.0, abs=1e-12)
    assert math.isnan(ours.z)


def test_numbers_of_a_model_class():
    found = summary.cells(records() + [r | {"problem": "ones"} for r in records()])
    folds, ours = summary.groups(found, "toys", 100)[1:]
    assert (folds.way, ours.way, folds.problems) == ("10-fold", "DD", 2)
    assert folds.miss.value == pytest.approx(math.sqrt(0.05) / 0.2)
    alone = summary.cells(records())["toys", "zeros", 100][1].relative
    assert folds.miss.stderr == pytest.approx(alone.stderr / math.sqrt(2))
    assert ours.ratio.value == pytest.approx(0.9)
    assert ours.cost == pytest.approx(1.5)
    assert not summary.groups(found, "toys", 400)


def test_single_data_sets_vary_over_problems():
    first = [record for record in records() if record["seed"] == 0]
    other = [r | {"problem": "ones", "estimate": r["test"] + 0.3} for r in first]
    folds = summary.groups(summary.cells(first + other), "toys", 100)[1]
    squares = np.array([0.5, 1.5]) ** 2  # misses of 0.1 and 0.3 in units of 0.2
    assert folds.miss.value == pytest.approx(math.sqrt(squares.mean()))
    wanted = squares.std(ddof=1) / math.sqrt(2) / (2 * folds.miss.value)
    assert folds.miss.stderr == pytest.approx(wanted)


def test_tables_and_figure_have_every_way():
    usual, full = summary.family_tables(records()), summary.cell_tables(records())
    assert (
        "| 100 | DD | 1 | 2 | 0.50 ± 0.00 | 400 | +0.50 ± 0.00 | – | 0.900 ± 0.000 | 1.5 |" in usual
    )
    assert "| 100 | 10-fold | 1 | 2 | 1.12 ± 0.45 | 80 | −0.50 ± 1.00 | 1.12 |" in usual
    short = summary.short_table(records())
    assert "| toys | 10-fold | 1.12 ± 0.45 | 80 | 11 | – | – | – |" in short
    assert "|  | DD | 0.50 ± 0.00 | 400 | 1.5 | – | – | – |" in short
    assert "| toys | zeros | 100 | DD | 2 | 0.9 ± 0 | +0.100 ± 0.000" in full
    figure = draw(records())
    (panel,) = figure.axes
    assert panel.get_title() == "n = 100"
    assert panel.get_ylabel() == "toys"
    costs = sorted(bars.lines[0].get_xdata()[0] for bars in panel.containers)
    assert costs == pytest.approx([1.5, 11])
    names = [text.get_text() for text in figure.legends[0].get_texts()]
    assert names == ["10-fold", "DD"]


def test_model_classes_have_their_order_for_records_in_any_order():
    places = [(name, "rows", 100) for name in ("default estimator", "toys", "ridge regression")]
    assert summary.families(places) == ["ridge regression", "default estimator", "toys"]


def test_the_sample_gain_is_a_number_of_rows():
    """Errors of ±0.2 by 100 rows of standard deviation 2, test errors known to 0.1."""
    fixed = {"family": "f", "problem": "p", "n": 100, "way": "own", "estimate_se": 0.2}
    fixed |= {"test": 1.0, "test_se": 0.1, "test_sd": 2.0, "seconds": 1.0}
    records = [fixed | {"seed": seed, "estimate": 0.8 + 0.4 * seed} for seed in (0, 1)]
    (group,) = summary.groups(summary.cells(records), "f", 100)
    assert group.gain == pytest.approx(2.0**2 / (0.2**2 - 0.1**2))
    assert group.miss.value == pytest.approx(1.0)
