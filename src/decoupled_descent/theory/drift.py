r"""The test error after a drift: rows from another mixture than those of training.

Training decides about θ_t, and θ_t has limits that do not depend on where it is tested. A mode of
the new mixture with mean μ' has pre-activations N(m', v Ω[t,t]), with v the variance of its noise
and m' = lim μ'ᵀθ_t/d. In the limit θ_t consists of its start, of the old means and of fresh noise.
A part of μ' that is orthogonal to the old means meets none of the last two, so

.. math:: m'_t = (\mu'\mu^\top/d)\,\chi^+ m_t , \qquad \chi = \mu\mu^\top/d,

with the old means in the rows of μ, if the start does not know the drift.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch
from torch import Tensor

from decoupled_descent.checks import real_number
from decoupled_descent.theory.laws import MixtureLaw, on_cpu
from decoupled_descent.theory.risk import asymptotic_test_error

if TYPE_CHECKING:
    from decoupled_descent.theory.evolution import Evolution


class DriftedError(NamedTuple):
    """The test error on another mixture, by iterate."""

    test_error: Tensor  # shape (T,)
    stderr: Tensor  # its standard error, shape (T,)
    alignment: Tensor  # m'_t, shape (T, J', L)


@on_cpu
def drifted_error(evolution: Evolution, mixture: MixtureLaw, variance: float = 1.0) -> DriftedError:
    """The limit of the test error on rows of another mixture; see :meth:`Evolution.under`."""
    if real_number("variance", variance) <= 0:
        raise ValueError(f"variance={variance!r} must be positive; 1 is that of training")
    theory = evolution.theory
    if theory.covariance is not None:
        raise ValueError(
            "under() is for rows with noise of covariance I/d; with another covariance the overlap "
            "of theta with new means does not follow from that with the old ones"
        )
    old, new = (getattr(one, "means", None) for one in (theory.mixture, mixture))
    if old is None or new is None:
        raise ValueError("under() needs the means of both mixtures; pass a GaussianMixture")
    if old.shape[1] != new.shape[1]:
        raise ValueError(
            f"mixture has {new.shape[1]} dimensions, but training was on {old.shape[1]}; use the "
            "same number"
        )
    old, new = old.double(), new.double()
    among, between = old @ old.T / old.shape[1], new @ old.T / old.shape[1]
    alignment = between @ torch.linalg.pinv(among, hermitian=True) @ evolution.alignment
    errors = [
        asymptotic_test_error(
            mixture, theory.objective, m, variance * overlap, evolution.parameters(t),
            seed=theory.seed,
        )
        for t, (m, overlap) in enumerate(zip(alignment, evolution.overlap, strict=True))
    ]  # fmt: skip
    values, stderrs = torch.tensor(errors, dtype=torch.float64).T
    return DriftedError(values, stderrs, alignment)
