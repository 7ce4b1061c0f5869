"""The methods that ``decoupled train`` offers: which settings each has, and one line about it."""

from __future__ import annotations

from typing import NamedTuple


class Method(NamedTuple):
    """A way to train.

    Attributes:
        settings: Names of the settings it has.
        summary: One line about it.
    """

    settings: tuple[str, ...]
    summary: str


METHODS = {
    "orthogonal": Method(("lr", "damping", "ridge"), "for any data"),
    "decoupled": Method(("lr", "damping"), "for white noise, as in the paper"),
    "gradient": Method(("lr",), "plain gradient descent, whose train error estimates nothing"),
}
