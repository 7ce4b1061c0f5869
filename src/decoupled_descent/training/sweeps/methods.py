"""The one table of methods that :func:`tune` chooses from by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from decoupled_descent.descent.common import Algorithm
from decoupled_descent.descent.decoupled import DecoupledDescent
from decoupled_descent.descent.gradient import GradientDescent
from decoupled_descent.descent.orthogonal import OrthogonalDecoupledDescent
from decoupled_descent.leave_one_out.newton import DecoupledNewton


class Method(NamedTuple):
    """A way to train that users choose by name.

    Attributes:
        build: Makes the algorithm from its settings, with reduction ``"mean"``; the decoupled
            methods also take ``head_lr``, for a head that moves at another rate.
        settings: Which of lr, damping and ridge it has.
        minimises: Whether it reaches the minimum, so that rows can be left out of it; otherwise it
            makes steps.
    """

    build: Callable[..., Algorithm]
    settings: tuple[str, ...]
    minimises: bool = False


METHODS = {
    "newton": Method(DecoupledNewton, ("ridge",), minimises=True),
    "orthogonal": Method(
        partial(OrthogonalDecoupledDescent, reduction="mean"), ("lr", "damping", "ridge")
    ),
    "decoupled": Method(partial(DecoupledDescent, reduction="mean"), ("lr", "damping")),
    "gradient": Method(partial(GradientDescent, reduction="mean"), ("lr",)),
}


def check_method(name: str) -> Method:
    """Look a method up, or raise ``ValueError`` that lists them."""
    if name not in METHODS:
        raise ValueError(f"method={name!r} must be one of {', '.join(METHODS)}")
    return METHODS[name]
