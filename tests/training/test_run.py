"""A run: its best step, its outputs, metrics and summaries."""

from xml.etree import ElementTree

import numpy as np
import pytest
import torch
from sklearn import metrics
from torch import nn

import decoupled_descent as dd
from tests.problems import binary
from tests.training.test_fit import DD, Record, network


def test_best_iterate(problem):
    """A rate that doubles from step to step: the error falls, then rises."""
    X, y, objective = problem

    class Doubling:
        def slots(self, value):
            return ()

        def __call__(self, value, direction, slots, step, scale):
            return value - 0.05 * 2.0**step * scale * direction, ()

    record = Record()
    algorithm = dd.GradientDescent(0.0, rule=Doubling())
    run = dd.fit(X, y, objective, algorithm, 12, callbacks=[record])
    best = int(np.argmin(run.history.train_error))
    assert 0 < best < 11
    assert run.best_step == best
    assert torch.equal(run.best_theta, record.steps[best].state.theta)
    weight = record.steps[best].state.head["1.weight"]
    assert torch.equal(run.best_head[1].weight, weight)
    expected = network(run.best_theta, run.best_head)(X).squeeze(1)
    torch.testing.assert_close(run.predict(X, best=True), expected.detach())
    assert not torch.equal(run.predict(X), run.predict(X, best=True))


ROW_WISE = {
    "gd": dd.GradientDescent(0.3),
    "dd": dd.DecoupledDescent(0.3, 0.9),
    "odd": dd.OrthogonalDecoupledDescent(0.3, 0.9),
    "odd, infinite ridge": dd.OrthogonalDecoupledDescent(0.3, 0.9, float("inf")),
}


@pytest.mark.parametrize("algorithm", ROW_WISE.values(), ids=ROW_WISE)
def test_best_preactivations_and_outputs_are_those_of_the_best_step(problem, algorithm):
    X, y, objective = problem
    record = Record()
    run = dd.fit(X, y, objective, algorithm, 25, callbacks=[record])
    best = record.steps[run.best_step]
    assert torch.equal(run.best_preactivations, best.info.preactivations)
    assert torch.equal(run.best_losses, best.info.losses)
    by_row = [
        torch.func.functional_call(objective.head, best.state.head, (h.unsqueeze(0),))
        for h in run.best_preactivations
    ]
    torch.testing.assert_close(run.best_outputs, torch.cat(by_row).squeeze(1).detach())
    bce = nn.functional.binary_cross_entropy_with_logits
    losses = bce(run.best_outputs, y, reduction="none")
    torch.testing.assert_close(losses, run.best_losses)
    assert float(losses.mean()) == pytest.approx(float(run.train_error.min()), rel=1e-12)
    assert not run.best_outputs.requires_grad


def test_best_preactivations_are_corrected_unless_descent_is_plain(problem):
    X = problem[0]
    for name, algorithm in ROW_WISE.items():
        run = dd.fit(*problem, algorithm, 25)
        assert run.best_step > 0
        plain = torch.allclose(run.best_preactivations, X @ run.best_theta.T)
        assert plain == (name == "gd")


def test_best_outputs_of_several_classes(problem):
    X, y, _ = problem
    objective = dd.Objective(dd.heads.TwoLayer(3, outputs=4, seed=0).double(), "cross_entropy")
    for algorithm in ROW_WISE.values():
        run = dd.fit(X, y.long(), objective, algorithm, 8)
        assert run.best_outputs.shape == (24, 4)
        losses = nn.functional.cross_entropy(run.best_outputs, y.long(), reduction="none")
        torch.testing.assert_close(losses, run.best_losses)


def test_predict(problem):
    X, y, _ = problem
    objective = dd.Objective(dd.heads.TwoLayer(3, outputs=4, seed=0), "cross_entropy")
    run = dd.fit(X, y.long(), objective, DD, 5)
    expected = network(run.theta, run.head)(X).detach()
    torch.testing.assert_close(run.predict(X), expected)
    torch.testing.assert_close(run.predict(X[:1].numpy()), expected[:1])
    assert not run.predict(X).requires_grad
    with pytest.raises(ValueError, match="X has 15 columns but the model was trained on 16"):
        run.predict(X[:, 1:])
    with pytest.raises(ValueError, match=r"X\[0, 0\] is nan"):
        run.predict(X * torch.nan)


def test_a_frozen_head_is_returned_in_the_dtype_of_the_data(problem):
    X, y, _ = problem
    head = dd.heads.Product(a=0.5).requires_grad_(False)
    run = dd.fit(X, y, dd.Objective(head, "logistic"), DD, 3)
    assert run.head(X @ run.theta.T).dtype == torch.float64
    assert head.a.dtype == torch.float32


def test_summary(problem):
    text = repr(dd.fit(*problem, DD, 4, test=binary(9, seed=1)))
    assert "DecoupledDescent, 4 iterates" in text
    assert "test error" in text
    assert "steps exhausted" in text


def test_shown_in_notebooks(problem):
    X, y, objective = problem
    run = dd.fit(X, y, objective, DD, 5, test=(X, y))
    table = ElementTree.fromstring(run._repr_html_())
    cells = {row[0].text: row[1].text for row in table}
    assert cells["best step"] == f"{run.best_step} of 4"
    assert cells["train error at this step"].startswith(f"{run.train_error.min():.4g} ± ")
    assert cells["test error at this step"] == f"{run.test_error[run.best_step]:.4g}"
    assert cells["ended"] == run.message
    assert {cell.get("style") for row in table for cell in row} == {"text-align: left"}
    assert cells["algorithm"] == "DecoupledDescent(lr=0.1, damping=0.9)"  # what is not as usual
    plain = dd.fit(X, y, objective, dd.GradientDescent(0.1), 5)
    for shown, ending in (
        (run, ", the estimated test error"),
        (plain, ", not an estimate of the test error"),
    ):
        assert f"{ending}</td>" in shown._repr_html_()


@pytest.mark.parametrize("algorithm", [DD, dd.DecoupledNewton(ridge=1.0)], ids=["dd", "newton"])
def test_metrics_are_those_of_the_outputs_as_if_new(problem, algorithm):
    X, y, objective = problem
    if algorithm is not DD:
        objective = dd.Objective(dd.heads.Linear(intercept=True), "logistic")
    run = dd.fit(X, y, objective, algorithm, 40)
    logits, right = run.best_outputs.reshape(-1), y > 0.5
    found = run.estimate("accuracy")
    assert found.value == pytest.approx(float(((logits > 0) == right).double().mean()))
    assert run.estimate("log_loss").value == run.error == pytest.approx(run.best.train_error)
    assert run.stderr == run.evaluation.stderr > 0
    assert run.estimate(metrics.roc_auc_score).value == metrics.roc_auc_score(y, logits)
    assert dd.sweep(X, y, objective, [DD], 5).best.estimate("brier").value > 0


def test_the_outputs_of_gradient_descent_are_no_estimate(problem):
    run = dd.fit(*problem, dd.GradientDescent(0.1), 3)
    with pytest.raises(ValueError, match="GradientDescent for its training rows are no estimate"):
        run.estimate("accuracy")
