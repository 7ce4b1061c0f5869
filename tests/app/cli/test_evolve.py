"""``decoupled evolve``: the table, true medians, the runs in JSON, and bad settings."""

import json
import math
import statistics

import pytest
import torch

from decoupled_descent.app.cli.evolve import MIXTURES, shown_steps
from decoupled_descent.theory import examples

TINY = ("evolve", "xor", "--dimension", "40", "--steps", "5", "--paths", "64")


def test_medians_are_those_of_all_runs(run, tmp_path):
    arguments = (*TINY, "--runs", "2", "--out", tmp_path)
    found = json.loads(run(*arguments, "--json")[1])
    status, text, _ = run(*arguments)
    assert status == 0
    assert ", 2 runs" in text
    rows = [line.split("│")[1:-1] for line in text.splitlines() if line.count("│") == 5]
    for step, predicted, *shown in rows:
        k = int(step)
        assert float(predicted) == pytest.approx(found["test_error"][k], abs=6e-5)
        for kind, value in zip(("train", "test"), shown, strict=True):
            runs = [curve[k] for curve in found[f"{kind}_error_of_runs"]]
            assert float(value) == pytest.approx(statistics.median(runs), abs=6e-5)
    assert [int(row[0]) for row in rows] == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("runs", "median"),
    [
        ([0.4145, 0.6059], "0.5102"),
        ([0.4145, 0.6059, 0.5], "0.5000"),
        ([0.4, math.inf], "inf"),
        ([0.4, 0.5, math.inf], "0.5000"),
        ([math.inf, math.inf], "inf"),
        ([], "–"),
    ],
)
def test_the_median_of_an_even_number_of_runs_is_between_the_middle_two(runs, median):
    errors = torch.tensor(runs, dtype=torch.float64).unsqueeze(1)
    assert shown_steps(torch.zeros(1), errors, errors) == [["0", "0.0000", median, median]]


def test_json_has_every_run(run, tmp_path):
    status, out, _ = run(*TINY, "--runs", "3", "--out", tmp_path, "--json")
    found = json.loads(out)
    assert status == 0
    for kind in ("train", "test"):
        curves = found[f"{kind}_error_of_runs"]
        assert [len(curve) for curve in curves] == [5, 5, 5]
        assert len({curve[0] for curve in curves}) == 3


@pytest.mark.filterwarnings("ignore::decoupled_descent.DivergenceWarning")
def test_a_run_that_diverges_is_null_from_there_on(run, tmp_path):
    arguments = ("--runs", "1", "--lr", "1e20", "--out", tmp_path, "--json")
    found = json.loads(run("evolve", "discrete", *TINY[2:], *arguments)[1])
    assert found["train_error_of_runs"][0][0] is not None
    assert found["train_error_of_runs"][0][-1] is None


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["spiral"], "mixture 'spiral' is unknown; use one of signalless"),
        (["xor", "--dimension", "5"], "dimension=5 must be even"),
        (["xor", "--lr", "-1"], "lr=-1"),
    ],
)
def test_bad_settings_make_no_folder(run, tmp_path, arguments, words):
    status, out, err = run("evolve", *arguments, "--out", tmp_path / "folder")
    assert (status, out) == (2, "")
    assert words in err
    assert not list(tmp_path.iterdir())


def test_the_mixtures_are_those_of_the_examples():
    assert MIXTURES == examples.NAMES
