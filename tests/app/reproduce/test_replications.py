"""Replications: kept as they finish, used again, computed anew when damaged, side by side."""

import json
import os
from dataclasses import replace

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.reproduce import replications, xor
from decoupled_descent.rows.threads import one_thread

TINY = {"n": 30, "d": 20, "lr": 0.05, "snr": [2.0], "steps": 4, "test_rows": 40, "replications": 3}
CALLS = []


def counted(settings, seed):
    CALLS.append(seed)
    return xor.problems(settings, seed)


@pytest.fixture
def experiment():
    CALLS.clear()
    return replace(xor.XOR, settings=TINY, problems=counted)


def run(experiment, folder, seed=0, jobs=1, **changes):
    return replications.run_all(experiment, TINY | changes, seed, folder, jobs=jobs, progress=False)


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(found[name], values)


def files(folder):
    return sorted((folder / replications.FOLDER).iterdir())


def test_curves_are_stacked_in_the_order_of_the_seeds(experiment, tmp_path):
    curves = run(experiment, tmp_path, seed=5)
    assert CALLS == [5, 6, 7]
    assert {name: values.shape for name, values in curves.items()} == {
        "snr=2/gd/train": (3, 4),
        "snr=2/gd/test": (3, 4),
        "snr=2/gd/state_evolution": (3, 4),
        "snr=2/gd/state_evolution_train": (3, 4),
        "snr=2/dd/train": (3, 4),
        "snr=2/dd/test": (3, 4),
        "snr=2/dd/state_evolution": (3, 4),
    }
    with one_thread():
        alone = xor.XOR.replicate(TINY, 6)
    for name, values in curves.items():
        np.testing.assert_array_equal(values[1], alone[name])


def test_nothing_is_computed_twice(experiment, tmp_path):
    first = run(experiment, tmp_path)
    CALLS.clear()
    assert_same(run(experiment, tmp_path), first)
    assert CALLS == []


def test_more_replications_are_added_to_those_there(experiment, tmp_path):
    three = run(experiment, tmp_path)
    five = run(experiment, tmp_path, replications=5)
    assert CALLS == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(five["snr=2/dd/test"][:3], three["snr=2/dd/test"])
    shifted = run(experiment, tmp_path, seed=2)
    assert CALLS == [0, 1, 2, 3, 4]
    np.testing.assert_array_equal(shifted["snr=2/dd/test"], five["snr=2/dd/test"][2:])


@pytest.mark.parametrize("change", [{"lr": 0.06}, {"snr": [3.0]}, {"steps": 5}])
def test_other_settings_are_another_experiment(experiment, tmp_path, change):
    run(experiment, tmp_path)
    CALLS.clear()
    run(experiment, tmp_path, **change)
    assert CALLS == [0, 1, 2]
    assert len(files(tmp_path)) == 6


def test_interruption_keeps_what_was_finished(experiment, tmp_path):
    def interrupted(settings, seed):
        if seed == 2:
            raise KeyboardInterrupt
        return counted(settings, seed)

    with pytest.raises(KeyboardInterrupt):
        run(replace(experiment, problems=interrupted), tmp_path)
    assert len(files(tmp_path)) == 2
    whole = run(experiment, tmp_path)
    assert CALLS == [0, 1, 2]
    assert_same(whole, run(experiment, tmp_path / "elsewhere"))


@pytest.mark.parametrize("damage", ["truncated", "empty", "flipped", "text", "other key"])
def test_damaged_files_are_computed_anew(experiment, tmp_path, damage):
    first = run(experiment, tmp_path)
    victim = next(file for file in files(tmp_path) if file.stem.endswith("-1"))
    content = bytearray(victim.read_bytes())
    if damage == "other key":
        replications.save(victim, "{}", {"snr=2/gd/train": np.zeros(4)})
    else:
        content[200] ^= 255
        cases = {"truncated": content[:-40], "empty": b"", "flipped": content, "text": b"no curves"}
        victim.write_bytes(cases[damage])
    CALLS.clear()
    assert_same(run(experiment, tmp_path), first)
    assert CALLS == [1]


def test_no_pickles(tmp_path):
    path = tmp_path / "one.npz"
    np.savez(path, key=np.array("{}"), curve=np.array([object()]))
    assert replications.load(path, "{}") is None


def test_an_interrupted_write_leaves_nothing_behind(tmp_path, monkeypatch):
    def full_disk(self, target):
        raise OSError("disk full")

    monkeypatch.setattr("pathlib.Path.replace", full_disk)
    path = replications.saved_at(tmp_path, replications.key("xor", TINY, 0))
    with pytest.raises(OSError, match="disk full"):
        replications.save(path, "{}", {"curve": np.zeros(2)})
    assert not list(path.parent.iterdir())


def test_the_key_is_kept_beside_the_curves(experiment, tmp_path):
    run(experiment, tmp_path)
    with np.load(files(tmp_path)[0], allow_pickle=False) as file:
        kept = json.loads(str(file["key"]))
    assert kept.pop("seed") in (0, 1, 2)
    assert kept.pop("version") == dd.__version__
    assert kept == {k: v for k, v in TINY.items() if k != "replications"} | {"figure": "xor"}


@pytest.fixture
def telltale():
    """An experiment that tells which process it ran in, and on how many threads."""

    class Where(type(xor.XOR)):  # not at the top level: other processes cannot import the tests
        def replicate(self, settings, seed, data=None):
            return {"a/b/c": np.array([os.getpid(), torch.get_num_threads(), seed], float)}

    return Where(**vars(xor.XOR) | {"name": "where"})


@pytest.mark.slow
def test_processes_share_the_work_one_thread_each(telltale, tmp_path):
    found = replications.run_all(telltale, TINY | {"replications": 6}, 0, tmp_path, jobs=2)["a/b/c"]
    assert os.getpid() not in found[:, 0]
    assert found[:, 1:].tolist() == [[1, seed] for seed in range(6)]
    assert len(files(tmp_path)) == 6


def test_what_is_timed_stays_in_this_process(telltale, tmp_path):
    before = torch.get_num_threads()
    found = replications.run_all(replace(telltale, timed=True), TINY, 0, tmp_path, jobs=2)["a/b/c"]
    assert set(found[:, 0]) == {os.getpid()}
    assert set(found[:, 1]) == {1}
    assert torch.get_num_threads() == before


def test_progress_says_what_is_left(experiment, tmp_path, capsys):
    run(experiment, tmp_path, replications=1)
    replications.run_all(experiment, TINY, 0, tmp_path, jobs=1, progress=True)
    drawn = capsys.readouterr().err
    assert "xor (1 replications are there already)" in drawn
    assert "2/2" in drawn
