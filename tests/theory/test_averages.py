import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.descent.info import LimitStep
from decoupled_descent.theory.averages import Model, Point, mean_jacobian
from decoupled_descent.theory.populations import quadrature_nodes

MIXTURE = dd.mixtures.flipped_classes(10, flip=0.1, labels=(0.0, 1.0))
M = torch.tensor([[0.4, -0.2], [-0.4, 0.2]]).double()
OMEGA = torch.tensor([[1.2, 0.3], [0.3, 0.8]]).double()


def twisted(h, y, a):
    """A direction whose Jacobian is not symmetric."""
    return torch.stack([torch.tanh(h[:, 0] + 2 * h[:, 1]), y * h[:, 0] * h[:, 1]], 1)


def model(curvature, g=None, divergence_free=False):
    head = dd.heads.TwoLayer(2, seed=0).double()
    objective = dd.Objective(head, "logistic", curvature=curvature)
    return Model(objective, MIXTURE, 2, LimitStep(g, divergence_free=divergence_free), True)


def placed():
    nodes = quadrature_nodes(MIXTURE, 2, 40)
    h = nodes.preactivations(M, OMEGA)
    return nodes, h, h - M[nodes.population.modes]


@pytest.mark.parametrize("g", [None, twisted])
def test_three_ways_to_a_mean_jacobian(g):
    """Derivatives averaged, row by row or at once, and Stein's lemma, which needs values only."""
    nodes, h, noise = placed()
    result = {}
    for curvature in ("auto", "autodiff", "smoothed"):
        own = model(curvature, g)
        a = own.objective.parameters()
        result[curvature] = mean_jacobian(own.bound, nodes.population, Point(M, OMEGA, a), noise)
    rows = own.bound.row_jacobians(h, nodes.population.responses, a)
    expected = torch.einsum("n,nij->ij", nodes.population.weights, rows)
    for curvature, jacobian in result.items():
        atol = 1e-5 if curvature == "smoothed" else 1e-12
        np.testing.assert_allclose(jacobian, expected, rtol=0, atol=atol)


def test_corrected_directions_are_free_of_divergence():
    nodes, h, noise = placed()
    own = model("auto", twisted, divergence_free=True)
    a = own.objective.parameters()
    jacobian = own.correction(nodes, Point(M, OMEGA, a))
    seen = own.observe(nodes.population, h, a, jacobian)
    stein = seen.direction.T @ (nodes.population.weights.unsqueeze(1) * noise)
    np.testing.assert_allclose(stein, np.zeros((2, 2)), atol=1e-5)
    np.testing.assert_allclose(
        own.directions(h, nodes.population.responses, a, jacobian), seen.direction
    )
    np.testing.assert_allclose(seen.signal, nodes.population.by_mode(seen.direction))
    assert model("auto").correction(nodes, Point(M, OMEGA, a)) is None


def test_the_head_s_direction_is_the_slope_of_the_test_error():
    nodes, h, _ = placed()
    own = model("auto")
    a = own.objective.parameters()
    result = own.observe(nodes.population, h, a).head
    for name, value in a.items():
        up, down = (
            nodes.population.weights
            @ own.losses(h, nodes.population.responses, a | {name: value + sign * 1e-6})
            for sign in (1, -1)
        )
        assert float(result[name].sum()) == pytest.approx(float(up - down) / 2e-6, rel=1e-6)


def test_a_head_direction_of_its_own_is_weighted():
    nodes, h, _ = placed()
    objective = dd.Objective(dd.heads.TwoLayer(2, seed=0).double(), "logistic")

    def f(h, y, a):
        return {"1.weight": (h * y[:, None]).unsqueeze(1)}

    own, y = Model(objective, MIXTURE, 2, LimitStep(f=f), True), nodes.population.responses
    expected = nodes.population.weights @ (h * y[:, None])
    a = objective.parameters()
    result = [
        own.observe(nodes.population, h, a).head,
        own.slopes(nodes, Point(M, OMEGA, a)).head_direction,
    ]
    for head in result:
        np.testing.assert_allclose(head["1.weight"][0], expected, rtol=1e-12)
    gradient = model("auto").observe(nodes.population, h, a).head["1.weight"]
    np.testing.assert_allclose(own.slopes(nodes, Point(M, OMEGA, a)).head["1.weight"], gradient)
