"""Saved iterates come back as they were, and nothing else is taken for one."""

import pytest
import torch
from safetensors.torch import save_file

import decoupled_descent as dd


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
