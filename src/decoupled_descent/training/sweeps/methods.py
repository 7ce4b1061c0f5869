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
from decoupled_descent.method_names import METHOD_NAMES


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


#: What makes the algorithm of each method.
BUILDERS: dict[str, Callable[..., Algorithm]] = {
    "newton": DecoupledNewton,
    "orthogonal": partial(OrthogonalDecoupledDescent, reduction="mean"),
    "decoupled": partial(DecoupledDescent, reduction="mean"),
    "gradient": partial(GradientDescent, reduction="mean"),
}
METHODS = {name: Method(BUILDERS[name], *about) for name, about in METHOD_NAMES.items()}


def check_method(name: str) -> Method:
    """Look a method up, or raise ``ValueError`` that lists them."""
    if name not in METHODS:
        raise ValueError(f"method={name!r} must be one of {', '.join(METHODS)}")
    return METHODS[name]
