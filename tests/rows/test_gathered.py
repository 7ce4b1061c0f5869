"""Estimators on rows that are divided among real processes: those of one process."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.rows.blocks import Rows
from decoupled_descent.rows.gathered import all_gather, divided, gather_rows, is_divided
from tests.rows.test_processes import started

WORKER = Path(__file__).with_name("gathered_worker.py")
NAMES = list(runpy.run_path(str(WORKER))["calls"]())


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("gathered")
    ended = started(folder, worker=WORKER)
    assert [code for _, code in ended] == [0, 0], ended
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


@pytest.mark.parametrize("name", NAMES)
def test_estimators_are_those_of_one_process(name, parts, monkeypatch):
    worker = runpy.run_path(str(WORKER))
    X, _, _ = worker["problem"]()
    model, kind, given = worker["calls"]()[name]
    for change in worker["CONSTANTS"]:
        monkeypatch.setattr(*change)
    expected = worker["results_of"](model.fit(X, worker["labels"](kind), **given), X)
    for part in (one[name] for one in parts):
        assert part["candidates"] == expected["candidates"]
        assert part["verdict"] == expected["verdict"]
        for key in ("error", "stderr", "left_out", "predictions"):
            np.testing.assert_allclose(part[key], expected[key], rtol=1e-8, atol=1e-9)


def test_what_is_refused_is_said(parts):
    for part in parts:
        refused = part["refused"]
        assert refused["groups"].startswith("groups has shape (5,) and 0 missing value(s)")
        assert "missing value(s); pass one value for each of the" in refused["missing"]
        assert refused["zero"].startswith("sample_weight is 0 in row")


def test_labels_of_all_processes(parts):
    for part in parts:
        numbers, texts, whole_numbers = part["kinds"]
        assert numbers == [1.0, 0.0, 1.5, 2.5]
        assert texts == ["", "y\n", "ä", 'say "x"']
        assert whole_numbers == [0, 1, 1, 2]
        assert part["all_gather"] == [[0.0], [0.0], [1.0], [1.0]]


def test_rows_of_one_process_are_what_they_are():
    rows = Rows(torch.eye(3), torch.arange(3.0))
    assert not is_divided(rows)
    assert gather_rows(rows, rows.y) is rows
    assert all_gather(rows, rows.y) is rows.y
    weights = torch.ones(3)
    assert divided(torch.eye(3), rows.y, rows, weights=weights).weights.tolist() == [1, 1, 1]
    assert isinstance(dd.Rows(torch.eye(3), rows.y), Rows)
