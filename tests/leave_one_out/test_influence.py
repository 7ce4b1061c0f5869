"""V = J H⁻¹ Jᵀ in every form against one dense matrix that is written down naively."""

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.leave_one_out.influence import BlockDiagonal
from decoupled_descent.leave_one_out.kernel import KernelInfluence
from decoupled_descent.leave_one_out.minimum import influence_of
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.leave_one_out.ridge import RidgeInfluence
from decoupled_descent.leave_one_out.softmax import SoftmaxDual, SoftmaxPrimal
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
    ("separate", 1, RidgeInfluence),
    ("separate", 3, RidgeInfluence),
    ("separate", 3, KernelInfluence),
    ("equal", 2, RidgeInfluence),
    ("equal", 2, KernelInfluence),
    ("softmax", 3, RidgeInfluence),
    ("softmax", 3, KernelInfluence),
    ("softmax", 3, SoftmaxPrimal),
    ("full", 2, SoftmaxPrimal),
]


def make(kind, count, form, weighted, intercept):
    """Features, curvature, the form to be tested, and the dense V."""
    r = 20 if form is KernelInfluence else 4
    features = normal(N, r, seed=2)
    weights = normal(N, seed=3).abs() + 0.3 if weighted else torch.ones(N, dtype=torch.float64)
    bends = curvature(kind, count)
    at = posed(features, bends, weights, intercept)
    V = dense(features, bends, weights, intercept)
    if form is SoftmaxPrimal:
        return bends, SoftmaxPrimal(at, bends), V
    V_at = influence_of(at, bends)
    if bends.rank_one is not None:
        assert type(V_at) is SoftmaxDual
    elif count == 1:
        assert type(V_at) is form
    else:
        assert type(V_at) is BlockDiagonal
        assert type(V_at.outputs[0]) is form
    return bends, V_at, V


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("kind", "count", "form"), CASES)
def test_every_form_against_the_dense_matrix(kind, count, form, weighted, intercept):
    bends, operator, V = make(kind, count, form, weighted, intercept)
    P = projection(bends)
    V = torch.einsum("ca,iajb,bd->icjd", P, V, P)
    close = {"atol": 1e-8, "rtol": 1e-7}
    here, size = torch.arange(N), len(ROWS)
    torch.testing.assert_close(P @ operator.blocks @ P, V[here, :, here], **close)
    between = torch.einsum("ca,iajb,bd->icjd", P, operator.between(ROWS), P)
    torch.testing.assert_close(between, V[ROWS][:, :, ROWS], **close)
    moves = normal(size, count, seed=4) @ P
    expected = torch.einsum("jasb,sb->ajs", V[:, :, ROWS], moves)
    torch.testing.assert_close(
        torch.einsum("ca,ajs->cjs", P, operator.columns(ROWS, moves)), expected, **close
    )
    values = torch.einsum("ca,ajs->cjs", P, normal(count, N, size, seed=6))
    product = torch.einsum("iajb,bjs->ais", V, values)
    torch.testing.assert_close(torch.einsum("ca,ajs->cjs", P, operator @ values), product, **close)
    own = product[:, ROWS, torch.arange(size)].T
    torch.testing.assert_close(operator.at(ROWS, values) @ P, own, **close)
    left = normal(size, count, seed=5) @ P
    pairs = torch.einsum("ia,iajb,jb->ij", left, V[ROWS][:, :, ROWS], moves)
    torch.testing.assert_close(operator.bilinear(ROWS, left, moves), pairs, **close)
    some = torch.tensor([5, 1])
    onto = torch.einsum("ca,ajs->cjs", P, operator.columns(ROWS, moves, some))
    torch.testing.assert_close(onto, expected[:, some], **close)
