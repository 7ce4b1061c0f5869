"""The structure of V that is chosen for a problem, and that it is computed once."""

from dataclasses import replace

import torch

from decoupled_descent.leave_one_out import linear_algebra, minimum
from decoupled_descent.leave_one_out.influence import BlockDiagonal
from decoupled_descent.leave_one_out.linear_algebra import pieces
from decoupled_descent.leave_one_out.minimum import forget_influence, influence_of
from decoupled_descent.leave_one_out.ridge import RidgeInfluence
from decoupled_descent.leave_one_out.softmax import SoftmaxPrimal
from tests.leave_one_out.test_influence import RIDGE, N, curvature, dense, posed, projection
from tests.problems import normal


def test_many_rows_need_no_square_matrix(monkeypatch):
    separate, softmax = curvature("separate", 2), curvature("softmax", 3)
    posed_both = [(posed(normal(N, 4, seed=2), bends), bends) for bends in (separate, softmax)]
    small = [influence_of(at, bends).blocks for at, bends in posed_both]
    monkeypatch.setattr(minimum, "SQUARE", 5)
    monkeypatch.setattr(linear_algebra, "CHUNK", 5)
    assert [len(part) for _, part in pieces(posed_both[0][0].rows)] == [5, 5, 2]
    for at, _ in posed_both:
        at.rows.kept.clear()
    large = [influence_of(at, bends) for at, bends in posed_both]
    assert [type(each) for each in large] == [BlockDiagonal, SoftmaxPrimal]
    assert type(large[0].outputs[0]) is RidgeInfluence
    for bends, before, after in zip((separate, softmax), small, large, strict=True):
        P = projection(bends)
        torch.testing.assert_close(P @ after.blocks @ P, P @ before @ P, atol=1e-7, rtol=1e-7)


def test_rows_without_curvature_do_no_harm():
    bends = curvature("separate", 1)
    bends.diagonal[:4] = 0.0
    features, weights = normal(N, 4, seed=2), torch.ones(N, dtype=torch.float64)
    V = dense(features, bends, weights, True)
    here = torch.arange(N)
    torch.testing.assert_close(
        influence_of(posed(features, bends), bends).blocks,
        V[here, :, here],
        atol=1e-7,
        rtol=1e-7,
    )


def test_the_last_influence_is_kept_with_the_rows():
    bends, weights = curvature("softmax", 3), torch.ones(N, dtype=torch.float64)
    at = posed(normal(N, 4, seed=2), bends)
    first = influence_of(at, bends)
    assert influence_of(replace(at, weighting=weights), curvature("softmax", 3)) is first
    grouped = replace(at, rows=at.rows.with_groups(torch.arange(N) // 2))
    assert influence_of(grouped, bends) is first
    free = posed(normal(N, 4, seed=2), bends, intercept=False).bound
    others = [
        (at, curvature("separate", 3)),
        (replace(at, ridge=2 * RIDGE), bends),
        (replace(at, weighting=2 * weights), bends),
        (replace(at, bound=free), bends),
    ]
    for other in others:
        assert influence_of(*other) is not first
        first = influence_of(at, bends)
    forget_influence(at.rows)
    again = influence_of(at, bends)
    assert again is not first
    assert torch.equal(again.blocks, first.blocks)
