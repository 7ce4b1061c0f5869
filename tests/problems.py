"""Small problems in the paper's scaling, shared by the tests, and choices that take turns."""

import itertools

import pytest
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


def in_turn(names, *cases):
    """Parametrise a test by the names of cases, where each choice takes its turn with the others.

    The sum of the places must be a multiple of the number of last choices; all other combinations
    are slow tests.
    """
    count, found = len(cases[-1]), []
    for places in itertools.product(*(range(len(choices)) for choices in cases)):
        marks = pytest.mark.slow if sum(places) % count else ()
        chosen = [list(choices)[place] for choices, place in zip(cases, places, strict=True)]
        found.append(pytest.param(*chosen, marks=marks))
    return pytest.mark.parametrize(names, found)
