"""Small problems in the paper's scaling, shared by the tests."""

import torch

import decoupled_descent as dd


def binary(n=24, d=16, seed=0, dtype=torch.float64):
    """Rows of norm about one, with a signal, and labels 0 or 1."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.randn(n, d, generator=generator, dtype=torch.float64) / d**0.5
    y = (X @ torch.randn(d, generator=generator, dtype=torch.float64) > 0).double()
    return X.to(dtype), y.to(dtype)


def normal(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def xor_objective(a=0.8, **options):
    return dd.Objective(dd.heads.Product(a=a), "logistic", **options)


def two_layer(width=3, seed=0, **options):
    return dd.Objective(dd.heads.TwoLayer(width, seed=seed, **options).double(), "logistic")
