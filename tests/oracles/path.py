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
    refined: bool = True,
    classes: Tensor | None = None,
) -> list[Tensor]:
    """Outputs of every row at the parameters of the run without its group, (n, K) at each step.

    With classes, the other rows of a class weigh more, so that its total weight stays.
    """
    identity = torch.eye(len(flat(module))).to(X)
    beta = flat(module).to(X)
    copies = [beta.clone() for _ in range(int(groups.max()) + 1)]
    found = []
    for _ in range(steps):
        own = [outputs(module, copies[groups[i]], X[i : i + 1]) for i in range(len(X))]
        found.append(torch.cat(own).detach())
        gradient, matrix = system(module, loss, beta, X, y, weights, ridge)
        nu = ridge + damping * scale(matrix, len(X))
        p = torch.linalg.solve(matrix + nu * identity, gradient)
        for i, at in enumerate(copies):
            keep = weights * (groups != i)
            _, shared = system(module, loss, beta, X, y, keep, ridge)
            if classes is not None:
                for c in classes.unique():
                    of_class = classes == c
                    keep[of_class] *= weights[of_class].sum() / keep[of_class].sum()
            left, own_matrix = system(module, loss, at, X, y, keep, ridge)
            shared, own_matrix = shared + nu * identity, own_matrix + nu * identity
            if refined:
                move = p + torch.linalg.solve(shared, left - own_matrix @ p)
            else:
                move = torch.linalg.solve(shared, left)
            copies[i] = at - rate * move
        beta = beta - rate * p
    return found


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
