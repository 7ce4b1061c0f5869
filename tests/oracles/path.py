r"""The path leave-one-out by definition: one dense Gauss–Newton run for every row that is left out.

No shared products, no Woodbury formula, no chunks. Derivatives of the outputs by autograd, row by
row; those of the losses by their formulas.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.func import functional_call


def flat(module: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in module.parameters() if p.requires_grad])


def outputs(module: nn.Module, beta: Tensor, X: Tensor) -> Tensor:
    """Outputs (n, K) at parameters β."""
    named, first = {}, 0
    for name, value in module.named_parameters():
        if value.requires_grad:
            named[name] = beta[first : first + value.numel()].reshape(value.shape)
            first += value.numel()
    found = functional_call(module, named, (X,))
    return found.unsqueeze(1) if found.ndim == 1 else found


def jacobian(module: nn.Module, beta: Tensor, X: Tensor) -> Tensor:
    """∂o/∂β, shape (n, K, P)."""
    return torch.autograd.functional.jacobian(lambda b: outputs(module, b, X), beta)


def slopes_and_curvatures(loss: str, o: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """∇ℓ (n, K) and ∇²ℓ (n, K, K)."""
    if loss == "squared":
        return o - y.reshape(o.shape), torch.eye(o.shape[1]).to(o).expand(len(o), -1, -1)
    if loss == "logistic":
        p = 1 / (1 + torch.exp(-o))
        return p - y.reshape(o.shape), torch.diag_embed(p * (1 - p))
    p = o.exp() / o.exp().sum(1, keepdim=True)
    return p - nn.functional.one_hot(y, o.shape[1]), torch.diag_embed(p) - p.unsqueeze(
        2
    ) * p.unsqueeze(1)


def system(
    module: nn.Module, loss: str, beta: Tensor, X: Tensor, y: Tensor, weights: Tensor, ridge: float
) -> tuple[Tensor, Tensor]:
    """The gradient of F, shape (P,), and Σ_j w_j J_jᵀ W_j J_j, shape (P, P)."""
    J = jacobian(module, beta, X)
    g, W = slopes_and_curvatures(loss, outputs(module, beta, X), y)
    gradient, matrix = ridge * beta, torch.zeros(len(beta), len(beta)).to(beta)
    for j in range(len(X)):
        gradient = gradient + weights[j] * J[j].T @ g[j]
        matrix = matrix + weights[j] * J[j].T @ W[j] @ J[j]
    return gradient, matrix


def scale(matrix: Tensor, n: int) -> float:
    """The mean squared length of the rows of the Jacobian, weighted by curvature."""
    return float(torch.trace(matrix)) / n


def path(
    module: nn.Module,
    loss: str,
    X: Tensor,
    y: Tensor,
    weights: Tensor,
    groups: Tensor,
    *,
    ridge: float,
    rate: float,
    damping: float,
    steps: int,
    classes: Tensor | None = None,
) -> list[Tensor]:
    """Outputs of every row at the parameters of the run without its group, (n, K) at each step.

    With classes, the other rows of a class weigh more, so that its total weight stays.
    """
    beta = flat(module).to(X)
    identity = torch.eye(len(beta)).to(X)
    copies = [beta.clone() for _ in range(int(groups.max()) + 1)]
    found = []
    for _ in range(steps):
        own = [outputs(module, copies[groups[i]], X[i : i + 1]) for i in range(len(X))]
        found.append(torch.cat(own).detach())
        gradient, matrix = system(module, loss, beta, X, y, weights, ridge)
        nu = ridge + damping * scale(matrix, len(X))
        p = torch.linalg.solve(matrix + nu * identity, gradient)
        runs = []
        for i, at in enumerate(copies):
            keep = weights * (groups != i)
            _, shared = system(module, loss, beta, X, y, keep, ridge)
            if classes is not None:
                for c in classes.unique():
                    of_class = classes == c
                    keep[of_class] *= weights[of_class].sum() / keep[of_class].sum()
            left, own_matrix = system(module, loss, at, X, y, keep, ridge)

            def value(b: Tensor, keep: Tensor = keep) -> float:
                return objective(module, loss, b, X, y, keep, ridge)

            shared, own_matrix = shared + nu * identity, own_matrix + nu * identity
            runs.append(Run(at, shared, own_matrix, left, p, rate, value))
        correct(runs, [float((at - beta).norm()) for at in copies], beta)
        copies = [run.at - rate * (p + run.change) for run in runs]
        beta = beta - rate * p
    return found


def objective(
    module: nn.Module, loss: str, beta: Tensor, X: Tensor, y: Tensor, weights: Tensor, ridge: float
) -> float:
    """F at β."""
    o = outputs(module, beta, X).detach()
    if loss == "squared":
        each = 0.5 * (o - y.reshape(o.shape)).square().sum(1)
    elif loss == "logistic":
        each = torch.log(1 + torch.exp(-(2 * y - 1) * o[:, 0]))
    else:
        each = torch.log(o.exp().sum(1)) - o[torch.arange(len(o)), y]
    return float(weights @ each + 0.5 * ridge * beta @ beta)


class Run:
    """The run without one group, with dense matrices: its step is p + change."""

    def __init__(self, at, shared, own, gradient, p, rate, value) -> None:
        self.at, self.shared, self.own, self.gradient = at, shared, own, gradient
        self.p, self.rate, self.value = p, rate, value
        self.change = torch.linalg.solve(shared, gradient - own @ p)

    def further(self) -> Tensor:
        missing = self.gradient - self.own @ (self.p + self.change)
        return torch.linalg.solve(self.shared, missing)

    def apart(self) -> bool:
        return bool(self.further().norm() > 0.3 * self.change.norm())

    def refine(self) -> bool:
        apart = self.apart()
        if apart:
            self.solve()
        else:
            self.change = self.change + self.further()
        return apart

    def solve(self) -> None:
        """Conjugate gradients, preconditioned by the shared matrix."""
        r, d = self.gradient - self.own @ (self.p + self.change), self.further()
        z = d
        for _ in range(8):
            length = (r @ z) / (d @ self.own @ d)
            self.change, before = self.change + length * d, r @ z
            r = r - length * self.own @ d
            z = torch.linalg.solve(self.shared, r)
            if z.norm() <= 0.1 * self.change.norm():
                break
            d = z + (r @ z) / before * d
        self.shorten()

    def shorten(self) -> None:
        for _ in range(6):
            step = self.p + self.change
            if self.value(self.at - self.rate * step) <= self.value(self.at):
                return
            self.change = 0.5 * step - self.p


def correct(runs: list[Run], distances: list[float], beta: Tensor) -> None:
    """More work for runs that are far away, and for all if one refinement is not enough."""
    count = len(runs)
    sample = torch.linspace(0, count - 1, min(8, count)).round().long().tolist()
    further = sum(float(runs[i].further().square().sum()) for i in sample)
    change = sum(float(runs[i].change.square().sum()) for i in sample)
    order = sorted(range(count), key=lambda i: -distances[i])
    lost = [i for i in range(count) if runs[i].value(runs[i].at) > 1.1 * runs[i].value(beta)]
    far = [runs[i].apart() for i in order[:8]]
    for i in {i for i in (*sample, *order[:8]) if runs[i].apart()}:
        runs[i].solve()
    for i in lost:
        runs[i].shorten()
    if further > 0.1**2 * change:
        for run in runs:
            run.refine()
        return
    first, size, going = 8, 16, any(far)
    while going and first < count:
        refined = [runs[i].refine() for i in order[first : first + size]]  # all of them
        going = any(refined)
        first, size = first + size, 2 * size


def refits(
    module: nn.Module,
    loss: str,
    X: Tensor,
    y: Tensor,
    *,
    ridge: float,
    rate: float,
    nus: list[float],
) -> list[Tensor]:
    """Literal runs from the start without each row, each with a matrix of its own: (n, K) a step.

    ``nus`` are λ + μ of the steps.
    """
    identity = torch.eye(len(flat(module))).to(X)
    found = [
        torch.empty(len(X), outputs(module, flat(module).to(X), X).shape[1]).to(X) for _ in nus
    ]
    for i in range(len(X)):
        keep = torch.ones(len(X)).to(X)
        keep[i] = 0.0
        beta = flat(module).to(X)
        for step, nu in enumerate(nus):
            found[step][i] = outputs(module, beta, X[i : i + 1])[0].detach()
            gradient, matrix = system(module, loss, beta, X, y, keep, ridge)
            beta = beta - rate * torch.linalg.solve(matrix + nu * identity, gradient)
    return found
