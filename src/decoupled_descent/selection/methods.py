"""The one table of methods, read by ``tune``, the estimators and the command line."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.gradient import GradientDescent
from decoupled_descent.descent.orthogonal import OrthogonalDecoupledDescent
from decoupled_descent.leave_one_out.newton import DecoupledNewton

#: Every setting that some method has.
SETTINGS = ("lr", "damping", "ridge")


class Method(NamedTuple):
    """A way to train that users choose by name.

    Attributes:
        build: Makes the algorithm from its settings, with reduction ``"mean"``; the decoupled
            methods also take ``head_lr``, for a head that moves at another rate.
        settings: Which of lr, damping and ridge it has.
        summary: What it is, in one line.
        minimises: Whether it reaches the minimum, so that rows can be left out of it; otherwise it
            makes steps.
    """

    build: Callable[..., Algorithm]
    settings: tuple[str, ...]
    summary: str
    minimises: bool = False


METHODS = {
    "newton": Method(
        DecoupledNewton,
        ("ridge",),
        "linear and kernel models, with leave-one-out errors",
        minimises=True,
    ),
    "orthogonal": Method(
        partial(OrthogonalDecoupledDescent, reduction="mean"),
        SETTINGS,
        "decoupled descent, for columns of any covariance",
    ),
    "decoupled": Method(
        partial(DecoupledDescent, reduction="mean"),
        ("lr", "damping"),
        "decoupled descent of the paper, for white noise",
    ),
    "gradient": Method(
        partial(GradientDescent, reduction="mean"),
        ("lr",),
        "gradient descent; its train error does not estimate the test error",
    ),
}


def check_method(name: str) -> Method:
    """Look a method up, or raise ``ValueError`` that lists them."""
    if name not in METHODS:
        raise ValueError(f"method={name!r} must be one of {', '.join(METHODS)}")
    return METHODS[name]
