"""V = J H⁻¹ Jᵀ in every form against one dense matrix that is written down naively."""

from dataclasses import replace

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.leave_one_out import influence as module
from decoupled_descent.leave_one_out import one_output
from decoupled_descent.leave_one_out.influence import Coupled, CoupledRidge, Separate, spread
from decoupled_descent.leave_one_out.one_output import KernelPart, RidgePart, pieces
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective.second_order import Curvature
from tests.problems import normal

N, RIDGE = 12, 0.7
ROWS = torch.tensor([7, 0, 3])


def posed(features, bends, weights=None, intercept=True, ridge=RIDGE):
    """A problem with these features; its loss does not matter, since its curvature is given."""
    count = bends.diagonal.shape[1]
    objective = dd.Objective(dd.heads.Linear(count, intercept=intercept).double(), "squared")
    rows = dd.Rows(features, torch.zeros(N, count).double(), weights=weights)
    return Problem(rows, objective.bind(rows.y, count, rows.X), ridge)


def curvature(kind, count, seed=1):
    """Hessians of rows: of separate outputs, of softmax, or any positive ones."""
    values = normal(N, count, seed=seed)
    zero = torch.zeros(N, dtype=torch.float64)
    if kind == "separate":
        return Curvature(zero, values, values.square() + 0.1)
    if kind == "equal":
        return Curvature(zero, values, torch.ones_like(values))
    if kind == "softmax":
        chances = torch.softmax(values, 1)
        return Curvature(zero, values, chances, chances)
    roots = normal(N, count, count, seed=seed)
    full = roots @ roots.mT + 0.1 * torch.eye(count)
    return Curvature(zero, values, full.diagonal(dim1=1, dim2=2), None, full)


def hessians_of(bends):
    if bends.full is not None:
        return bends.full.numpy()
    W = np.stack([np.diag(row) for row in bends.diagonal.numpy()])
    if bends.rank_one is not None:
        W -= np.stack([np.outer(c, c) for c in bends.rank_one.numpy()])
    return W


def dense(features, bends, weights, intercept):
    """V, shape (n, K, n, K), from J and H as they are defined; a pseudo-inverse for softmax."""
    n, count = bends.diagonal.shape
    phi = features.numpy()
    phi = np.hstack([phi, np.ones((n, 1))]) if intercept else phi
    r = phi.shape[1]
    J = np.zeros((n, count, count * r))
    for i in range(n):
        for k in range(count):
            J[i, k, k * r : (k + 1) * r] = phi[i]
    penalty = np.full(r, RIDGE)
    if intercept:
        penalty[-1] = 0.0
    H = np.diag(np.tile(penalty, count))
    for i, W in enumerate(hessians_of(bends)):
        H += weights[i].item() * J[i].T @ W @ J[i]
    V = np.einsum("iap,pq,jbq->iajb", J, np.linalg.pinv(H, rcond=1e-11), J)
    return torch.from_numpy(V)


def projection(bends):
    """Takes out a common shift of all outputs where the loss is blind to it."""
    count = bends.diagonal.shape[1]
    eye = torch.eye(count, dtype=torch.float64)
    return eye if bends.rank_one is None else eye - 1.0 / count


CASES = [
    ("separate", 1, RidgePart),
    ("separate", 3, RidgePart),
    ("separate", 3, KernelPart),
    ("equal", 2, RidgePart),
    ("equal", 2, KernelPart),
    ("softmax", 3, RidgePart),
    ("softmax", 3, KernelPart),
    ("softmax", 3, CoupledRidge),
    ("full", 2, CoupledRidge),
]


def make(kind, count, form, weighted, intercept):
    """Features, curvature, the form to be tested, and the dense V."""
    r = 20 if form is KernelPart else 4
    features = normal(N, r, seed=2)
    weights = normal(N, seed=3).abs() + 0.3 if weighted else torch.ones(N, dtype=torch.float64)
    bends = curvature(kind, count)
    at = posed(features, bends, weights, intercept)
    if form is CoupledRidge:
        found = CoupledRidge(at, bends)
    else:
        found = spread(at, bends)
        wanted = Separate if bends.rank_one is None else Coupled
        assert type(found) is wanted
        if wanted is Separate:
            assert type(found.parts[0]) is form
    return bends, found, dense(features, bends, weights, intercept)


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "count", "form"), CASES)
def test_every_form_against_the_dense_matrix(kind, count, form, weighted, intercept):
    bends, found, V = make(kind, count, form, weighted, intercept)
    P = projection(bends)
    V = torch.einsum("ca,iajb,bd->icjd", P, V, P)
    close = {"atol": 1e-8, "rtol": 1e-7}
    here, size = torch.arange(N), len(ROWS)
    torch.testing.assert_close(P @ found.blocks @ P, V[here, :, here], **close)
    among = torch.einsum("ca,iajb,bd->icjd", P, found.between(ROWS), P)
    torch.testing.assert_close(among, V[ROWS][:, :, ROWS], **close)
    moves, left = normal(size, count, seed=4) @ P, normal(size, count, seed=5) @ P
    expected = torch.einsum("jasb,sb->ajs", V[:, :, ROWS], moves)
    torch.testing.assert_close(
        torch.einsum("ca,ajs->cjs", P, found.columns(moves, ROWS)), expected, **close
    )
    values = torch.einsum("ca,ajs->cjs", P, normal(count, N, size, seed=6))
    product = torch.einsum("iajb,bjs->ais", V, values)
    torch.testing.assert_close(
        torch.einsum("ca,ajs->cjs", P, found.times(values)), product, **close
    )
    own = product[:, ROWS, torch.arange(size)].T
    torch.testing.assert_close(found.at(values, ROWS) @ P, own, **close)
    pairs = torch.einsum("ia,iajb,jb->ij", left, V[ROWS][:, :, ROWS], moves)
    torch.testing.assert_close(found.pairs(left, moves, ROWS), pairs, **close)


def test_many_rows_need_no_square_matrix(monkeypatch):
    separate, softmax = curvature("separate", 2), curvature("softmax", 3)
    posed_both = [(posed(normal(N, 4, seed=2), bends), bends) for bends in (separate, softmax)]
    small = [spread(at, bends).blocks for at, bends in posed_both]
    monkeypatch.setattr(module, "SQUARE", 5)
    monkeypatch.setattr(one_output, "CHUNK", 5)
    assert [len(part) for _, part in pieces(posed_both[0][0].rows)] == [5, 5, 2]
    for at, _ in posed_both:
        at.rows.kept.clear()
    large = [spread(at, bends) for at, bends in posed_both]
    assert [type(each) for each in large] == [Separate, CoupledRidge]
    assert type(large[0].parts[0]) is RidgePart
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
        spread(posed(features, bends), bends).blocks,
        V[here, :, here],
        atol=1e-7,
        rtol=1e-7,
    )


def test_the_last_spread_is_kept_with_the_rows():
    bends, weights = curvature("softmax", 3), torch.ones(N, dtype=torch.float64)
    at = posed(normal(N, 4, seed=2), bends)
    first = spread(at, bends)
    assert spread(replace(at, weighting=weights), curvature("softmax", 3)) is first
    grouped = replace(at, rows=at.rows.with_groups(torch.arange(N) // 2))
    assert spread(grouped, bends) is first
    free = posed(normal(N, 4, seed=2), bends, intercept=False).bound
    others = [
        (at, curvature("separate", 3)),
        (replace(at, ridge=2 * RIDGE), bends),
        (replace(at, weighting=2 * weights), bends),
        (replace(at, bound=free), bends),
    ]
    for other in others:
        assert spread(*other) is not first
        first = spread(at, bends)
    at.rows.kept.clear()
    again = spread(at, bends)
    assert again is not first
    assert torch.equal(again.blocks, first.blocks)
