"""Solutions with rows left out of a Gauss–Newton matrix, against dense ones."""

from __future__ import annotations

import pytest
import torch

from decoupled_descent.networks.examples import Examples
from decoupled_descent.networks.path.curvature import assemble
from tests.networks.path_problems import close


@pytest.mark.parametrize("size", [5, 40], ids=["primal", "dual"])
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("groups", [None, [0, 1, 1, 2, 2, 2, 3, 4]], ids=["rows", "groups"])
def test_solutions_equal_those_of_dense_matrices(size, outputs, groups):
    draw = torch.Generator().manual_seed(0)
    B = torch.randn(8, outputs, size, generator=draw).double()
    data = Examples(torch.zeros(8, 1).double(), torch.zeros(8), groups=groups)
    followed = data.followed(torch.tensor([1, 2, 4]), outputs)
    dual = size >= 8 * outputs
    parts = assemble(iter([B[:3], B[3:]]), dual)
    A = torch.einsum("nkp,nkq->pq", B, B) + 0.3 * torch.eye(size).double()
    curvature = parts.with_damping(0.3)
    vectors = torch.randn(3, size, generator=draw).double()
    close(curvature.solve(vectors[0]), torch.linalg.solve(A, vectors[0]))
    found = curvature.solve_without(vectors, followed.members())
    leverages, there = curvature.leverages(followed.members()), followed.members().there
    for k, group in enumerate((1, 2, 4)):
        own = B[data.groups == group].flatten(0, 1)
        block = leverages[k][there[k]][:, there[k]]
        close(block, own @ torch.linalg.solve(A, own.T))
        close(found[k], torch.linalg.solve(A - own.T @ own, vectors[k]))
    some = torch.tensor([2])
    close(curvature.solve_without(vectors[some], followed.members(some)), found[some])
    assert parts.scale == pytest.approx(float(B.square().sum()))
