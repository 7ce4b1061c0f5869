"""Descent of a two-layer tanh network where PyTorch's own optimiser moves θ and the memory."""

import torch
from torch import nn
from torch.func import grad, hessian, vmap


def dense(X, y, theta, w, batches, make, n_scale, head_lr, corrected, norms, schedule=None):
    """Every row of the memory is moved at every update, by the optimiser ``make([θ, M])``.

    ``batches`` has the row numbers of each update, ``norms`` the squared norms of the noise in each
    row. Returns θ, M, the output weights, and the losses of all batches at their update.
    """
    (n, d), bce = X.shape, nn.functional.binary_cross_entropy_with_logits
    theta, memory = theta.clone(), torch.zeros(n, len(theta), dtype=theta.dtype)
    shadow = make([theta, memory])
    scheduler = None if schedule is None else schedule(shadow)

    def loss(h, label, w):
        return bce(torch.tanh(h) @ w, label)

    during = []
    for index in batches:
        s = torch.zeros(n, 1, dtype=X.dtype)
        s[index] = n / len(index)
        h = X @ theta.T + (memory if corrected else 0)
        during.append(vmap(loss, (0, 0, None))(h, y, w)[index])
        direction = s * vmap(grad(loss), (0, 0, None))(h, y, w)
        bends = vmap(hessian(loss), (0, 0, None))(h, y, w) * norms[:, None, None]
        bend = (s.unsqueeze(2) * bends).mean(0)
        slopes = vmap(grad(loss, argnums=2), (0, 0, None))(h, y, w)
        onsager = n / d * bend @ theta if corrected else 0
        theta.grad = n_scale * (direction.T @ X - onsager)
        memory.grad = -n_scale * direction * norms[:, None]
        shadow.step()
        w = w - head_lr * (s * slopes).mean(0)
        if scheduler is not None:
            scheduler.step()
    return theta, memory, w, torch.cat(during)
