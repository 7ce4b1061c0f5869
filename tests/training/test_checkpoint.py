"""Saved iterates come back as they were, and nothing else is taken for one."""

import pytest
import torch
from safetensors.torch import save_file

import decoupled_descent as dd
from tests.descent.test_rules import Momentum


def test_every_kth_iterate_is_saved_and_loads(tmp_path):
    X, y = dd.mixtures.xor(20, 4.0).sample(30, seed=0)
    objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
    save, seen = dd.SaveIterates(tmp_path / "runs", every=3), {}
    watch = [save, lambda step: seen.update({step.index: step.state}) and None]
    dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 8, callbacks=watch)
    assert sorted(p.name for p in save.path(0).parent.iterdir()) == [
        save.path(k).name for k in (0, 3, 6)
    ]
    for k in (0, 3, 6):
        theta, head = dd.load_iterate(save.path(k))
        assert torch.equal(theta, seen[k].theta)
        assert torch.equal(head["a"], seen[k].head["a"])
        assert isinstance(objective.module(head), dd.heads.Product)


@pytest.mark.parametrize("content", [b"", b"\x80\x04not a tensor", None])
def test_other_files_are_refused(tmp_path, content):
    path = tmp_path / "x.safetensors"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a saved iterate"):
        dd.load_iterate(path)


def test_a_file_without_theta_is_refused(tmp_path):
    save_file({"weights": torch.ones(2)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match="holds no theta"):
        dd.load_iterate(tmp_path / "x.safetensors")


def test_every_must_be_positive(tmp_path):
    with pytest.raises(ValueError, match="every=0"):
        dd.SaveIterates(tmp_path, every=0)


ALGORITHMS = {
    "gd": dd.GradientDescent(0.1),
    "dd": dd.DecoupledDescent(0.1, 0.9),
    "momentum": dd.DecoupledDescent(0.1, rule=Momentum(0.1, 0.5)),
    "odd": dd.OrthogonalDecoupledDescent(0.1, 0.9),
    "greedy": dd.GreedyDescent.grid(0.1),
}


def problem():
    X, y = dd.mixtures.xor(20, 4.0).sample(30, seed=0)
    return dd.Rows(X, y), dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")


@pytest.mark.parametrize("algorithm", ALGORITHMS.values(), ids=ALGORITHMS)
def test_a_loaded_state_goes_on_as_if_it_had_never_stopped(tmp_path, algorithm):
    rows, objective = problem()
    save = dd.SaveIterates(tmp_path, every=3)
    whole = dd.fit(rows, None, objective, algorithm, 9, callbacks=save)
    state = save.load(3, like=algorithm.init(rows, objective))
    rest = dd.fit(rows, None, objective, algorithm, 6, state=state)
    assert rest.history.train_error == whole.history.train_error[3:]
    assert type(state) is type(whole.state)
    assert torch.equal(rest.theta, whole.theta)
    assert sorted(dd.load_iterate(save.path(6))[1]) == sorted(whole.state.head)


def test_a_continued_run_adds_to_what_is_there(tmp_path):
    rows, objective = problem()
    save, algorithm = dd.SaveIterates(tmp_path, every=4), dd.DecoupledDescent(0.1)
    part = dd.fit(rows, None, objective, algorithm, 7, callbacks=save)
    start = save.path(0).read_bytes()
    whole = dd.fit(rows, None, objective, algorithm, 13, callbacks=[])
    dd.fit(rows, None, objective, algorithm, 7, callbacks=save, state=part.state)
    assert sorted(p.name for p in tmp_path.iterdir()) == [save.path(k).name for k in (0, 4, 8, 12)]
    assert save.path(0).read_bytes() == start
    assert torch.equal(dd.load_iterate(save.path(12))[0], whole.theta)


def test_a_state_loads_only_where_it_belongs(tmp_path):
    rows, objective = problem()
    save, algorithm = dd.SaveIterates(tmp_path, every=2), dd.DecoupledDescent(0.1)
    dd.fit(rows, None, objective, algorithm, 3, callbacks=save)
    other = dd.OrthogonalDecoupledDescent(0.1).init(rows, objective)
    with pytest.raises(ValueError, match="holds nothing for 'preactivations', but like has"):
        save.load(2, like=other)
    fewer = dd.Rows(rows.X[:20], rows.y[:20])
    with pytest.raises(ValueError, match=r"shape \(3, 30\) for 'memory'.*shape \(3, 20\)"):
        save.load(2, like=algorithm.init(fewer, objective))
    with pytest.raises(ValueError, match="is not a saved iterate"):
        save.load(1, like=algorithm.init(rows, objective))


def test_names_of_runs_make_folders_apart(tmp_path):
    save = dd.SaveIterates(tmp_path)
    names = ["lr=0.1, seed=2", "a/b", "a_b", "a%2Fb", "η=1"]
    folders = [save.for_run(name).folder for name in names]
    assert len(set(folders)) == len(names)
    assert all(folder.parent == tmp_path for folder in folders)
    assert folders[0].name == names[0]


def test_states_of_the_users_own_making_are_saved_as_far_as_they_are_known(tmp_path):
    class State:
        theta, head = torch.ones(1, 2), {"a": torch.zeros(())}

    save = dd.SaveIterates(tmp_path, every=2)
    save(dd.Step(2, 0.5, 0.1, None, State(), None))
    theta, head = dd.load_iterate(save.path(2))
    assert torch.equal(theta, State.theta)
    assert list(head) == ["a"]
