"""Copies as one tensor dimension, and what is noticed about a module."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from decoupled_descent.networks.folds.stacked_module import StackedModule
from tests.networks.problems import perceptron, rows


class Centred(nn.Module):
    """Subtracts the mean of the batch; no class that anything could know."""

    def forward(self, x):
        return x - x.mean(0)


class Counter(nn.Module):
    """Changes a buffer, but not in the first pass."""

    def __init__(self):
        super().__init__()
        self.passes = 0
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.passes += 1
        if self.training and self.passes > 6:
            self.count += 1
        return x


def prepared(model, X, together=None):
    stack = StackedModule(model, 3)
    stack.prepare(X[:16], together)
    return stack


def test_copies_start_equal_and_are_the_module():
    (X, _), model = rows(), perceptron()
    stack = prepared(model, X)
    assert stack.together
    assert stack.reason == ""
    outputs = stack.all(X)
    for k in range(3):
        torch.testing.assert_close(outputs[k], model(X))
        torch.testing.assert_close(stack.one(k, X), model(X))
        torch.testing.assert_close(stack.module(k, stack.snapshot())(X), model(X))


@pytest.mark.parametrize("part", [Centred(), nn.BatchNorm1d(5, dtype=torch.float64)], ids=str)
def test_modules_that_mix_rows_are_noticed(part):
    X, _ = rows()
    stack = prepared(perceptron(middle=part), X)
    assert stack.mixes_rows
    assert not stack.together
    with pytest.raises(ValueError, match="together=True does not work: outputs of a row depend"):
        prepared(perceptron(middle=part), X, together=True)


def test_looking_changes_neither_buffers_nor_random_numbers():
    X, _ = rows()
    model = perceptron(middle=nn.BatchNorm1d(5, dtype=torch.float64))
    torch.manual_seed(3)
    stack = prepared(model, X)
    assert torch.equal(torch.rand(1), torch.rand(1, generator=torch.Generator().manual_seed(3)))
    assert sorted(stack.buffers) == [
        "1.num_batches_tracked", "1.running_mean", "1.running_var"
    ]  # fmt: skip
    assert torch.equal(stack.buffers["1.running_mean"], torch.zeros(3, 5, dtype=torch.float64))


def test_frozen_batch_normalisation_is_shared_and_taken_together():
    X, _ = rows()
    model = perceptron(middle=nn.BatchNorm1d(5, dtype=torch.float64))
    model[1].eval()
    stack = prepared(model, X)
    assert stack.together
    assert "1.running_mean" in stack.shared


def test_a_model_in_evaluation_mode_is_trained_in_training_mode():
    stack = StackedModule(perceptron(middle=nn.Dropout(0.5)).eval(), 2)
    with stack.mode(True):
        assert stack.template[1].training
    with stack.mode(False):
        assert not stack.template[1].training


def test_tied_weights_stay_tied():
    X, _ = rows()
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).double()
    model[2].weight = model[0].weight
    stack = prepared(model, X)
    assert sorted(stack.parameters) == ["0.bias", "0.weight", "2.bias"]
    torch.testing.assert_close(stack.all(X)[1], model(X))


class Answer(nn.Module):
    """Returns what is no tensor of rows."""

    def __init__(self, change):
        super().__init__()
        self.first, self.change = perceptron(), change

    def forward(self, x):
        return self.change(self.first(x))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda out: {"logits": out}, "model returned dict for 16 rows; wrap it"),
        (lambda out: out.mean(), r"model returned \(\) for 16 rows"),
        (lambda out: out[:3], r"model returned \(3, 3\) for 16 rows"),
    ],
)
def test_outputs_must_have_one_entry_per_row(change, message):
    with pytest.raises(ValueError, match=message):
        prepared(Answer(change), rows()[0])


def test_inputs_of_another_kind_are_named():
    X = rows()[0]
    with pytest.raises(ValueError, match=r"X with rows of shape \(4,\) and torch.float32: mat1"):
        prepared(perceptron(), X.float())
    with pytest.raises(ValueError, match=r"X with rows of shape \(2,\) and torch.float64"):
        prepared(perceptron(), X[:, :2])


def test_attention_over_tokens():
    """Evaluation under vmap gives no warning, and the kernels for it stay as they were."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    model = nn.Sequential(nn.Embedding(20, 8), layer, nn.Flatten(), nn.Linear(24, 2))
    X = torch.randint(20, (30, 3))
    stack = prepared(model, X)
    assert stack.together
    assert torch.backends.mha.get_fastpath_enabled()
    with torch.no_grad(), stack.mode(False):
        torch.testing.assert_close(stack.all(X)[1], model.eval()(X))


def test_many_weights_are_computed_one_copy_after_the_other():
    X, _ = rows()
    model = nn.Sequential(nn.Linear(4, 300), nn.Tanh(), nn.Linear(300, 400)).double()
    stack = prepared(model, X)
    assert stack.size == 1500 + 120400
    assert not stack.together
    assert "121900 weights" in stack.reason
    assert prepared(model, X, together=True).together


def test_refusals():
    X, _ = rows()
    with pytest.raises(ValueError, match="model has no trainable parameters"):
        StackedModule(perceptron().requires_grad_(False), 2)
    stack = prepared(nn.Sequential(perceptron(), Counter()), X)
    with stack.mode(True):
        for _ in range(6):
            stack.one(0, X)
    with pytest.raises(ValueError, match=r"model changes its buffer '1.count'"):
        stack.check_shared()
    with pytest.raises(ValueError, match="of another model"):
        stack.load({})
