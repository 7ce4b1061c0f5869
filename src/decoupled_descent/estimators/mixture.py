"""The model that the Newton method trains: a mixture of linear models of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.checks import is_finite_number
from decoupled_descent.rows.features import restore
from decoupled_descent.rows.interface import Features
from decoupled_descent.validation.found import Search, predictions, row_count

Floats = NDArray[np.floating[Any]]


class Member(NamedTuple):
    """One model of the mixture.

    Attributes:
        share: Its weight.
        features: The fitted feature map.
        theta: Coefficients, shape (K, r).
        bias: Intercepts, shape (K,).
        ridge: λ.
    """

    share: float
    features: Features
    theta: Tensor
    bias: Tensor
    ridge: float


@dataclass(frozen=True)
class Mixture:
    """A trained model: members whose predictions are mixed.

    Attributes:
        loss: ``"logistic"``, ``"cross_entropy"`` or ``"squared"``.
        members: With shares that sum to 1, largest first.
        rows: The number of training rows, which bounds probabilities away from 0 and 1.
    """

    loss: str
    members: tuple[Member, ...]
    rows: float

    @classmethod
    def of(cls, found: Search) -> Mixture:
        """Make the model from a search."""
        members = []
        for share, candidate in found.members:
            state = candidate.run.state
            (bias,) = state.head.values()
            members.append(Member(share, candidate.features, state.theta, bias, candidate.ridge))
        count = row_count(found.best.rows)
        return cls(found.objective.loss.name, tuple(members), count)

    def main_features(self) -> Features:
        """The feature map whose members have the largest share."""
        shares: dict[int, float] = {}
        for member in self.members:
            shares[id(member.features)] = shares.get(id(member.features), 0.0) + member.share
        main = max(shares, key=lambda key: shares[key])
        return next(one.features for one in self.members if id(one.features) == main)

    def predict(self, X: Any) -> Floats:
        """Probabilities of all classes, or numbers, shape (m, K)."""
        maps: dict[int, Tensor] = {}
        total: Tensor | None = None
        for share, features, theta, bias, _ in self.members:
            if id(features) not in maps:
                maps[id(features)] = features.transform(X)
            outputs = maps[id(features)] @ theta.T + bias
            part = share * predictions(self.loss, outputs, self.rows)
            total = part if total is None else total + part
        assert total is not None
        result: Floats = total.numpy()
        return result


def describe_mixture(mixture: Mixture) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Describe a mixture of models: feature maps, coefficients, shares."""
    maps = {id(member.features): member.features for member in mixture.members}
    places = {key: place for place, key in enumerate(maps)}
    tensors: dict[str, Tensor] = {}
    described = []
    for place, features in enumerate(maps.values()):
        settings, parts = features.state()
        described.append(settings)
        tensors |= {f"map.{place}.{name}": value for name, value in parts.items()}
    members = []
    for index, (share, features, theta, bias, ridge) in enumerate(mixture.members):
        place = places[id(features)]
        members.append({"share": float(share), "map": place, "ridge": float(ridge)})
        tensors |= {f"member.{index}.theta": theta, f"member.{index}.bias": bias}
    about = {"loss": mixture.loss, "rows": mixture.rows, "maps": described, "members": members}
    return tensors, about


def rebuild_mixture(content: Any, tensors: dict[str, Tensor], loss: str, outputs: int) -> Mixture:
    """Restore a mixture, or raise ``ValueError`` if parts do not match."""
    if content["loss"] != loss:
        raise ValueError(f"it has the loss {content['loss']!r:.20}; train the model again")
    maps = []
    for place, settings in enumerate(content["maps"]):
        start = f"map.{place}."
        parts = {
            k.removeprefix(start): v.clone() for k, v in tensors.items() if k.startswith(start)
        }
        if not all(v.isfinite().all() for v in parts.values() if v.is_floating_point()):
            raise ValueError("a feature map has numbers that are not finite; train the model again")
        maps.append(restore(settings, parts))
    members = []
    for index, member in enumerate(content["members"]):
        theta, bias = (tensors[f"member.{index}.{name}"].clone() for name in ("theta", "bias"))
        features, share, ridge = maps[member["map"]], member["share"], member["ridge"]
        wanted = (outputs, len(features.map_.shift))
        if theta.shape != wanted or bias.shape != wanted[:1] or not is_finite_number(share):
            raise ValueError("its coefficients do not match its features; train the model again")
        if not is_finite_number(ridge) or ridge <= 0:
            raise ValueError("its coefficients do not match its features; train the model again")
        if not (theta.isfinite().all() and bias.isfinite().all() and 0 < share <= 1):
            raise ValueError("its coefficients or shares are not valid; train the model again")
        members.append(Member(float(share), features, theta, bias, float(ridge)))
    if not members or abs(sum(member.share for member in members) - 1) > 1e-6:
        raise ValueError("the shares of its members do not sum to 1; train the model again")
    rows = content["rows"]
    if not is_finite_number(rows) or not rows > 0:
        raise ValueError(f"its number of rows is {rows!r:.20}; train the model again")
    return Mixture(loss, tuple(members), rows)
