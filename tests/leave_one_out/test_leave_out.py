"""Rows left out of a minimum: one Newton step, further ones, and where they fail."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.leave_one_out import leave_out as module
from decoupled_descent.leave_one_out.class_shares import ClassShares
from decoupled_descent.leave_one_out.leave_out import (
    leave_out,
    loss_covariance,
    moves_without_folds,
    pull_back,
    push_forward,
    refine,
)
from decoupled_descent.leave_one_out.minimum import linear_minimum
from decoupled_descent.leave_one_out.problem import Problem
from tests.leave_one_out.test_newton import LOSSES, problem
from tests.oracles import newton as oracle


class Case:
    """A problem and its minimum, found by SciPy."""

    def __init__(self, loss, ridge, outputs=1, shape=(40, 6), **extra):
        X, y = problem(loss, *shape, outputs=outputs)
        weights = extra.get("weights")
        self.X, self.y, self.loss, self.ridge, self.count = X, y, LOSSES[loss], ridge, outputs
        rows = dd.Rows(X, y, **extra)
        objective = dd.Objective(dd.heads.Linear(outputs, intercept=True).double(), loss)
        bound = objective.bind(rows.y, outputs, rows.X)
        beta = oracle.fit(X, y, self.loss, ridge, weights, outputs)
        self.outputs = torch.tensor(oracle.predict(X, beta))
        self.minimum = linear_minimum(Problem(rows, bound, ridge), self.outputs)
        self.shares = ClassShares.at(self.minimum)
        self.all = torch.arange(len(X))

    def once(self):
        return leave_out(self.minimum, self.shares)

    def again(self, first, rows=None, sweeps=2):
        rows = self.all if rows is None else rows
        return refine(self.minimum, first, rows, self.shares, sweeps)

    def in_groups(self, groups):
        """The same minimum, with rows that leave together."""
        problem = self.minimum.problem
        rows = problem.rows.with_groups(torch.as_tensor(groups))
        return self.minimum._replace(problem=replace(problem, rows=rows))

    def refits(self, **extra):
        return torch.tensor(
            oracle.refits(self.X, self.y, self.loss, self.ridge, outputs=self.count, **extra)
        )


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
@pytest.mark.parametrize("weighted", [False, True])
def test_further_steps_come_closer_to_refits(loss, outputs, weighted):
    extra = {}
    if weighted:
        weights = np.random.default_rng(3).uniform(0.5, 3, 40)
        extra = {"weights": weights}
    at = Case(loss, 0.5, outputs, **extra)
    truth = at.refits(**extra)
    first = at.once()
    better = at.again(first)
    calm = torch.ones(len(truth), dtype=torch.bool)
    calm[better.doubtful] = False
    assert int(calm.sum()) > 35
    centred = truth - truth.mean(1, keepdim=True) * (outputs > 1)

    def miss(result):
        shifted = result.outputs - result.outputs.mean(1, keepdim=True) * (outputs > 1)
        return float((shifted - centred)[calm].abs().mean())

    assert miss(better) < 0.5 * miss(first)
    assert miss(first) < 0.1
    assert len(first.doubtful) == 0


def test_many_steps_reach_the_refits(monkeypatch):
    for name in ("TOLERANCE", "LAST_TOLERANCE"):
        monkeypatch.setattr(module, name, 1e-9)
    at = Case("logistic", 2.0, weights=np.random.default_rng(3).uniform(0.5, 3, 40))
    result = at.again(at.once(), sweeps=200)
    truth = at.refits(weights=at.minimum.problem.weights.numpy())
    assert len(result.doubtful) == 0
    torch.testing.assert_close(result.outputs, truth, atol=1e-6, rtol=0)


def test_change_and_moves_are_consistent():
    at = Case("logistic", 1.0)
    first = leave_out(at.minimum)
    torch.testing.assert_close(first.change, (first.outputs - at.outputs).abs().amax(1))
    everywhere = at.minimum.influence.columns(
        at.all, first.moves
    )  # all outputs, as each row leaves
    torch.testing.assert_close(everywhere[0].diagonal(), (first.outputs - at.outputs)[:, 0])


@pytest.mark.parametrize(("loss", "outputs"), [("logistic", 1), ("cross_entropy", 3)])
def test_losses_are_expanded_in_pieces(monkeypatch, loss, outputs):
    case = Case(loss, 0.5, outputs)
    complete = case.again(case.once())
    monkeypatch.setattr(module, "EXPANDED", 7 * outputs * len(case.all))  # seven rows
    in_pieces = case.again(case.once())
    torch.testing.assert_close(in_pieces.outputs, complete.outputs, rtol=1e-12, atol=1e-12)


def test_only_the_rows_asked_for_are_refined():
    at = Case("logistic", 0.5)
    first, rows = at.once(), torch.tensor([3, 8])
    result = at.again(first, rows)
    others = torch.ones(40, dtype=torch.bool)
    others[rows] = False
    assert torch.equal(result.outputs[others], first.outputs[others])
    assert (result.outputs[rows] != first.outputs[rows]).all()


def test_rows_near_interpolation_are_doubtful():
    at = Case("logistic", 1e-3, shape=(30, 25))
    first = at.once()
    result = at.again(first)
    assert len(result.doubtful) > 0
    assert torch.equal(result.outputs[result.doubtful], first.outputs[result.doubtful])
    calm = Case("logistic", 5.0)
    assert len(calm.again(calm.once()).doubtful) == 0


def test_groups_of_one_row_are_rows():
    at = Case("cross_entropy", 1.0, 3)
    rows = leave_out(at.in_groups(at.all), at.shares)
    once = at.once()
    torch.testing.assert_close(rows.outputs, once.outputs, atol=1e-8, rtol=0)
    torch.testing.assert_close(rows.moves, once.moves, atol=1e-8, rtol=0)


def test_groups_of_squared_loss_are_refits():
    at, groups = Case("squared", 0.3), np.arange(40) % 7
    result = leave_out(at.in_groups(groups))
    torch.testing.assert_close(result.outputs, at.refits(groups=groups), atol=1e-8, rtol=0)


def expected_covariance(at, codes):
    """By literal refits: B_GH is how far group G's left-out loss rises when H leaves, too."""
    count = codes.max() + 1

    def losses(*left_out):
        kept = (~np.isin(codes, left_out)).astype(float)
        beta = oracle.fit(at.X, at.y, oracle.squared, at.ridge, kept)
        return ((oracle.predict(at.X, beta)[:, 0] - at.y) ** 2) / 2

    B = np.zeros((count, count))
    for one in range(count):
        own = losses(one)[codes == one].sum()
        for other in set(range(count)) - {one}:
            B[one, other] = losses(one, other)[codes == one].sum() - own
    B *= count / len(codes)
    centred = B - B.mean(0) - B.mean(1, keepdims=True) + B.mean()
    np.fill_diagonal(centred, 0)
    return max(0.0, (centred * centred.T).sum()) / (count * (count - 1))


@pytest.mark.parametrize("groups", [None, np.arange(40) % 13])
def test_pairs_against_two_left_out_together(groups):
    at = Case("squared", 30.0, groups=groups)  # strongly penalised: second orders are small
    codes = np.arange(40) if groups is None else groups
    result = loss_covariance(at.minimum, at.all)
    expected = expected_covariance(at, codes)
    assert expected > 0
    assert result == pytest.approx(expected, rel=0.25)


def test_pairs_of_groups_of_one_row_are_pairs_of_rows():
    alone = Case("cross_entropy", 1.0, 3)
    grouped = Case("cross_entropy", 1.0, 3, groups=np.arange(40)[::-1].copy())
    result = [loss_covariance(at.minimum, at.all) for at in (alone, grouped)]
    assert result[0] == pytest.approx(result[1], rel=1e-8)
    assert result[0] > 0


def test_a_shift_at_the_minimum_moves_left_out_outputs():
    """The transpose of d o^(−i) / d o_i, by differences, for outputs that meet in the loss."""
    at = Case("cross_entropy", 1.0, 3)
    values = torch.randn(40, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    result = pull_back(at.minimum, values)
    shift = torch.randn(40, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    eps = 1e-6
    ends, bends = [], at.minimum.curvature
    for sign in (1, -1):  # the loss is a parabola around the minimum: W stays, the slope moves
        slope = bends.slope + sign * eps * torch.einsum("nab,nb->na", bends.matrices(), shift)
        outputs = at.outputs + sign * eps * shift
        moved = at.minimum._replace(outputs=outputs, curvature=bends._replace(slope=slope))
        ends.append(leave_out(moved))
    response = (ends[0].outputs - ends[1].outputs) / (2 * eps)
    torch.testing.assert_close((result * shift).sum(1), (values * response).sum(1))


@pytest.mark.parametrize("groups", [None, torch.arange(40) % 13])
def test_shifts_are_the_transpose_of_reactions(groups):
    at = Case("cross_entropy", 1.0, 3)
    values, shift = torch.randn(2, 40, 3, generator=torch.Generator().manual_seed(0)).double()
    minimum = at.minimum if groups is None else at.in_groups(groups)
    result = push_forward(minimum, shift.T.unsqueeze(2))
    back = pull_back(minimum, values)
    torch.testing.assert_close((result.squeeze(2).T * values).sum(), (shift * back).sum())


@pytest.mark.parametrize(
    ("loss", "outputs", "groups"),
    [
        ("squared", 1, None),
        ("squared", 1, np.arange(40) % 13),
        ("logistic", 1, None),
        ("cross_entropy", 3, None),
        ("cross_entropy", 3, np.arange(40) % 13),
    ],
)
def test_folds_that_are_left_out_too_against_refits(loss, outputs, groups):
    """One Newton step towards the minimum without the fold; exact for squared loss."""
    at = Case(loss, 10.0, outputs, groups=groups)
    codes = np.arange(40) if groups is None else groups
    folds = torch.tensor(codes % 10)
    result = moves_without_folds(at.minimum, folds)
    assert result.shape == (10, 40, outputs)
    for fold in (0, 7):
        kept = folds != fold
        beta = oracle.fit(at.X, at.y, at.loss, at.ridge, kept.double().numpy(), outputs)
        moved = (torch.tensor(oracle.predict(at.X, beta)) - at.outputs).T.unsqueeze(2)
        expected = push_forward(at.minimum, moved).squeeze(2).T[kept]
        difference = result[fold][kept] - expected
        if outputs > 1:  # softmax ignores a common shift of all outputs
            difference -= difference.mean(1, keepdim=True)
        missed = difference.norm() / expected.norm()
        assert missed < (1e-6 if loss == "squared" else 0.15)
