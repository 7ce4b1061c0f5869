r"""Newton's method and leave-one-out for heads with weights of their own.

Outputs o_i(β) are not linear in β = (θ, a). The Hessian of F has two terms. The first, Σ_i
J_iᵀW_iJ_i + Λ, is Gauss–Newton's. The second, Σ_i g_i·∂²o_i, has the second derivatives of the
outputs. The Newton direction includes it by conjugate gradients. Leave-one-out includes it if there
are no more parameters than outputs of rows. With more, the model follows its rows, g is small, and
the second term matters less. Λ is λ, and nearly zero for the bias of the outputs.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.func import grad, vmap

from decoupled_descent.leave_one_out.conjugate_gradients import Iterate, conjugate_gradients
from decoupled_descent.leave_one_out.influence import Influence
from decoupled_descent.leave_one_out.linear_algebra import cholesky
from decoupled_descent.leave_one_out.minimise import line_search, relative_gain
from decoupled_descent.leave_one_out.minimum import Minimum
from decoupled_descent.leave_one_out.problem import Problem
from decoupled_descent.objective import Parameters
from decoupled_descent.objective.second_order import Curvature

#: The bias of the outputs is penalised by λ times this: nearly free, but positive.
BIAS_SHARE = 1e-6
#: The most conjugate gradient steps within one Newton step.
INNER = 50
#: This many columns of a Hessian are computed at a time.
COLUMNS = 64


@dataclass(frozen=True, eq=False)
class GaussNewtonStep:
    """Result of a step: where it started, where it leads, and what leave-one-out needs.

    Attributes:
        problem: What is minimised.
        outputs: o at the start of the step, shape (n, K).
        curvature: The loss to second order there.
        factor: The factored Gauss–Newton Hessian.
        second: Computes the second term of the Hessian, shape (p, p).
        decrement: −gᵀ times the step, as a share of F.
        theta: θ after the step.
        head: a after the step.
    """

    problem: Problem
    outputs: Tensor
    curvature: Curvature
    factor: _Factor
    second: Callable[[], Tensor]
    decrement: float
    theta: Tensor
    head: Parameters

    def minimum(self) -> Minimum:
        """What leaving rows out needs, if the step started at the minimum."""
        factor = self.factor.with_term(self.second()) if self.factor.primal else self.factor
        return Minimum(
            self.problem, self.outputs, self.curvature, GaussNewtonInfluence(factor.half())
        )

    def again(self, problem: Problem, theta: Tensor, head: Parameters) -> GaussNewtonStep:
        """A step of a similar problem."""
        return gauss_newton_step(problem, theta, head)


class GaussNewtonInfluence(Influence):
    """V_ij = A_iᵀA_j, for a matrix A of shape (·, n, K)."""

    def __init__(self, half: Tensor) -> None:
        self.half = half

    @cached_property
    def blocks(self) -> Tensor:
        """The diagonal blocks V_ii, shape (n, K, K)."""
        return torch.einsum("pna,pnb->nab", self.half, self.half)

    def _backward(self, values: Tensor) -> Tensor:
        """A u, shape (·, s)."""
        return torch.einsum("pnk,kns->ps", self.half, values)

    def __matmul__(self, values: Tensor) -> Tensor:
        return torch.einsum("pnk,ps->kns", self.half, self._backward(values))

    def columns(self, rows: Tensor, values: Tensor, onto: Tensor | None = None) -> Tensor:
        """V_ji u_i of some rows i; see :meth:`Influence.columns`."""
        half = self.half if onto is None else self.half[:, onto]
        own = torch.einsum("psk,sk->ps", self.half[:, rows], values)
        return torch.einsum("pnk,ps->kns", half, own)

    def at(self, rows: Tensor, values: Tensor) -> Tensor:
        """(V u)_i of single rows; see :meth:`Influence.at`."""
        return torch.einsum("psk,ps->sk", self.half[:, rows], self._backward(values))

    def between(self, rows: Tensor) -> Tensor:
        """V_ij for some rows; see :meth:`Influence.between`."""
        own = self.half[:, rows].flatten(1)
        return (own.T @ own).reshape(2 * (len(rows), self.half.shape[2]))


class _Factor:
    """H = JᵀWJ + Λ, factored in the space of parameters or of outputs, whichever is smaller.

    All is computed in double precision. In single precision, differences of large matrices leave
    so little in the space of outputs that steps go astray and V is not positive.
    """

    def __init__(self, jacobian: Tensor, hessians: Tensor, penalty: Tensor) -> None:
        n, count, size = jacobian.shape
        self.dtype, self.shape, self.penalty = jacobian.dtype, (n, count), penalty.double()
        values, vectors = torch.linalg.eigh(hessians.double())
        roots = vectors * values.clamp_min(0).sqrt().unsqueeze(1)  # W_i = R_i R_iᵀ
        jacobian = jacobian.double()
        self.flat = jacobian.reshape(n * count, size)
        bent = torch.einsum("nba,nbp->nap", roots, jacobian).reshape(n * count, size)
        self.primal = size <= n * count
        if self.primal:
            self.system = bent.T @ bent
            self.system.diagonal().add_(self.penalty)
            self.root = cholesky(self.system)
            return
        self.scaled = bent / self.penalty.sqrt()  # rows of R J Λ^{−1/2}
        system = self.scaled @ self.scaled.T
        system.diagonal().add_(1.0)
        self.root = cholesky(system)

    def with_term(self, term: Tensor) -> _Factor:
        """The same with a further term of H, unless H is not positive definite then."""
        root, failed = torch.linalg.cholesky_ex(self.system + term)
        if int(failed):
            return self
        other = copy.copy(self)
        other.root = root
        return other

    def solve(self, vector: Tensor) -> Tensor:
        """H⁻¹ of a vector of parameters."""
        return self._solve(vector.double()).to(vector)

    def _solve(self, vector: Tensor) -> Tensor:
        if self.primal:
            return torch.cholesky_solve(vector.unsqueeze(1), self.root).squeeze(1)
        scaled = vector / self.penalty.sqrt()
        inner = torch.cholesky_solve((self.scaled @ scaled).unsqueeze(1), self.root).squeeze(1)
        return (scaled - self.scaled.T @ inner) / self.penalty.sqrt()

    def half(self) -> Tensor:
        """A matrix (·, n, K) whose columns have the products V = J H⁻¹ Jᵀ."""
        n, count = self.shape
        if self.primal:
            half: Tensor = torch.linalg.solve_triangular(self.root, self.flat.T, upper=False)
            return half.to(self.dtype).reshape(-1, n, count)
        scaled = self.flat / self.penalty.sqrt()
        # V = B(I − Sᵀ(I + SSᵀ)⁻¹S)Bᵀ is positive semidefinite and is factored, too
        inner = torch.linalg.solve_triangular(self.root, self.scaled @ scaled.T, upper=False)
        gram = scaled @ scaled.T - inner.T @ inner
        return cholesky(gram).T.to(self.dtype).reshape(-1, n, count)


def gauss_newton_step(problem: Problem, theta: Tensor, head: Parameters) -> GaussNewtonStep:
    """One damped Newton step in all parameters."""
    flat = _Flat(theta, head)
    weights, penalty = problem.weights, flat.penalty(problem.ridge)

    def outputs_of(parameters: Tensor) -> Tensor:
        at, a = flat.split(parameters)
        values = problem.bound.objective.pure_head(problem.rows.X @ at.T, a)
        return values.unsqueeze(1) if values.ndim == 1 else values

    start = flat.join(theta, head)
    with torch.no_grad():
        outputs = outputs_of(start)
    curvature = problem.expand(outputs)
    hessians = weights.reshape(-1, 1, 1) * curvature.matrices()
    factor = _Factor(_jacobian(problem, theta, head, outputs.shape[1]), hessians, penalty)
    second = _Second(outputs_of, start, (weights.unsqueeze(1) * curvature.slope).detach())

    def times(vector: Tensor) -> tuple[Tensor, Tensor]:
        """The true Hessian times a vector, and the outputs that it moves."""
        moved = (factor.flat @ vector.double()).to(vector).reshape(outputs.shape)
        bent = torch.einsum("nab,nb->na", hessians, moved).reshape(-1).double()
        pulled = (factor.flat.T @ bent).to(vector)
        return penalty * vector + second.times(vector) + pulled, moved

    gradient = second.slope.detach() + penalty * start
    direction = conjugate_gradients(times, factor.solve, -gradient, _done, INNER, flat=1e-12).x
    gain = float(gradient @ direction)

    def value(t: float) -> float:
        parameters = start + t * direction
        with torch.no_grad():
            losses = problem.expand(outputs_of(parameters)).value
        return float(weights @ losses + 0.5 * (penalty * parameters.square()).sum())

    now = value(0.0)
    t = line_search(value, now, gain, 1e-15 * problem.total)
    after, a = flat.split(start + t * direction)
    gained = relative_gain(-gain, now)
    return GaussNewtonStep(
        problem, outputs, curvature, factor, second.matrix, gained, after.contiguous(), a
    )


class _Second:
    """Σ_i g_i·∂²o_i/∂β²: the derivative of Σ_i g_i·∂o_i/∂β for constant g."""

    def __init__(self, outputs_of: Callable[[Tensor], Tensor], start: Tensor, pull: Tensor) -> None:
        with torch.enable_grad():
            self.leaf = start.clone().requires_grad_()
            total = (outputs_of(self.leaf) * pull).sum()
            (self.slope,) = torch.autograd.grad(total, self.leaf, create_graph=True)

    def times(self, vectors: Tensor) -> Tensor:
        """The matrix times a vector, or the products with several, shape (…, p)."""
        if not self.slope.requires_grad:
            return torch.zeros_like(vectors)
        several = {"retain_graph": True, "is_grads_batched": vectors.ndim == 2}
        (product,) = torch.autograd.grad(
            self.slope, self.leaf, vectors, materialize_grads=True, **several
        )
        return product

    def matrix(self) -> Tensor:
        """The matrix itself, shape (p, p), a few columns at a time."""
        columns = torch.eye(len(self.leaf), dtype=self.leaf.dtype, device=self.leaf.device)
        matrix = torch.cat([self.times(part) for part in torch.split(columns, COLUMNS)])
        return (matrix + matrix.T) / 2


def seconds_to_leave_out(n: int, size: int) -> float:
    """About how long the second term of the Hessian takes on one core, as P products with n rows.

    It took 18 s for 2,200 rows and 2,049 parameters.
    """
    return 2e-9 * n * size**2 if size <= n else 0.0


def _done(at: Iterate) -> bool:
    """Conjugate gradients are the more exact, the closer the minimum is."""
    first = float(at.first)
    return float(at.size) <= min(1e-2, first) * 1e-2 * first


def _jacobian(problem: Problem, theta: Tensor, head: Parameters, count: int) -> Tensor:
    """J_i = ∂o_i/∂(θ, a), shape (n, K, p)."""
    X, objective = problem.rows.X, problem.bound.objective
    h = X @ theta.T

    def single(row: Tensor, a: Parameters, k: int) -> Tensor:
        return objective.pure_head(row.unsqueeze(0), a).reshape(-1)[k]

    parts = []
    for k in range(count):
        slopes, own = vmap(grad(single, argnums=(0, 1)), in_dims=(0, None, None))(h, head, k)
        first = (slopes.unsqueeze(2) * X.unsqueeze(1)).flatten(1)
        others = [own[name].reshape(len(first), -1) for name in head]  # scalars have no axis 1
        parts.append(torch.cat([first, *others], 1))
    return torch.stack(parts, 1)


class _Flat:
    """All parameters as one vector: θ first, then the head's in their order."""

    def __init__(self, theta: Tensor, head: Parameters) -> None:
        self.shape, self.dtype, self.device = theta.shape, theta.dtype, theta.device
        self.shapes = {name: value.shape for name, value in head.items()}

    def join(self, theta: Tensor, head: Parameters) -> Tensor:
        return torch.cat([theta.flatten(), *(head[name].flatten() for name in self.shapes)])

    def split(self, vector: Tensor) -> tuple[Tensor, Parameters]:
        sizes = [self.shape.numel(), *(shape.numel() for shape in self.shapes.values())]
        first, *rest = torch.split(vector, sizes)
        named = zip(self.shapes.items(), rest, strict=True)
        return first.view(self.shape), {name: part.view(shape) for (name, shape), part in named}

    def penalty(self, ridge: float) -> Tensor:
        """Λ: λ for all parameters but the last bias, which sets the level of the outputs.

        Biases of hidden units are penalised. Otherwise the biases of saturated units would grow
        without end.
        """
        sizes = [self.shape.numel(), *(shape.numel() for shape in self.shapes.values())]
        shares = [1.0] * len(sizes)
        if self.shapes and len(list(self.shapes.values())[-1]) == 1:
            shares[-1] = BIAS_SHARE
        return torch.cat(
            [
                torch.full((size,), ridge * share, dtype=self.dtype, device=self.device)
                for size, share in zip(sizes, shares, strict=True)
            ]
        )
