"""Independent references: torch's own losses, central differences, and ``torch.func``."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.func import functional_call, grad, hessian, vmap

from tests.problems import normal

LOSSES = ("squared", "logistic", "cross_entropy")


def row_losses(head, loss, h, y):
    """Ψ row by row from the module itself and torch's losses."""
    u = head(h).reshape(len(h), -1)
    if callable(loss):
        return loss(u, y)
    if loss == "cross_entropy":
        return nn.functional.cross_entropy(u, y, reduction="none")
    y = y.reshape(len(h), -1)
    if loss == "logistic":
        bce = nn.functional.binary_cross_entropy_with_logits
        return bce(u, y, reduction="none").sum(1)
    return nn.functional.mse_loss(u, y, reduction="none").sum(1) / 2


def labels(loss, n, outputs, seed=9):
    """Labels that fit the loss: class indices, shares or reals."""
    if loss == "cross_entropy":
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(outputs, (n,), generator=generator)
    y = normal(n, outputs, seed=seed)
    y = torch.sigmoid(y) if loss == "logistic" else y
    return y.squeeze(1) if outputs == 1 else y


def differences(psi, h):
    """Gradient and mean Hessian of row-wise ``psi`` by extrapolated central differences."""
    axes = torch.eye(h.shape[1], dtype=h.dtype)

    def slope(s):
        return torch.stack([psi(h + s * e) - psi(h - s * e) for e in axes], 1) / (2 * s)

    def bend(s):
        def cross(e, f):
            same = psi(h + s * (e + f)) + psi(h - s * (e + f))
            return (same - psi(h + s * (e - f)) - psi(h - s * (e - f))).mean() / (4 * s * s)

        return torch.stack([torch.stack([cross(e, f) for f in axes]) for e in axes])

    with torch.no_grad():
        return [(4 * d(2e-3) - d(4e-3)) / 3 for d in (slope, bend)]


def by_rows(head, loss, h, y):
    """Loss, ∇_hΨ, mean Hessian and mean head gradients by ``vmap`` over ``torch.func``."""
    a = {k: v.detach() for k, v in head.named_parameters() if v.requires_grad}

    def psi(x, a, label):
        def call(rows):
            return functional_call(head, a, (rows,))

        return row_losses(call, loss, x.unsqueeze(0), label.unsqueeze(0))[0]

    def over_rows(function):
        return vmap(function, (0, None, 0))(h, a, y)

    slopes = over_rows(grad(psi, argnums=1)) if a else {}
    return (
        over_rows(psi),
        over_rows(grad(psi)),
        over_rows(hessian(psi)).mean(0),
        {k: v.mean(0) for k, v in slopes.items()},
    )


def assert_agree(result, expected, tolerance=1e-12):
    """Tensors, values, tuples or dictionaries agree relative to the largest entry (or 1)."""
    if isinstance(expected, bool | float | None):
        assert result == expected
        return
    if isinstance(expected, Mapping):
        assert result.keys() == expected.keys()
        result, expected = list(result.values()), [expected[k] for k in result]
    if not isinstance(expected, torch.Tensor):
        for one, other in zip(result, expected, strict=True):
            assert_agree(one, other, tolerance)
        return
    assert result.shape == expected.shape
    assert expected.isfinite().all()
    scale = max(1.0, float(expected.abs().max()))
    torch.testing.assert_close(result, expected, rtol=0, atol=tolerance * scale)
