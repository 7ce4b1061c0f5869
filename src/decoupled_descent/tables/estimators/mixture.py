"""A mixture of linear models of features, which the Newton method trains."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from decoupled_descent.objective.losses import Loss
from decoupled_descent.tables.features.candidates import restore
from decoupled_descent.tables.features.interface import Features
from decoupled_descent.tables.members.catalogue import restore_member
from decoupled_descent.tables.members.interface import KeptRows, SelectedColumn
from decoupled_descent.tables.members.interface import Member as ModelOfMember
from decoupled_descent.tables.prediction import predictor
from decoupled_descent.tables.schema import require
from decoupled_descent.tables.search.fits import SearchResult, row_count

Floats = NDArray[np.floating[Any]]

#: So many members are named.
SHOWN = 4


class NewtonMember(NamedTuple):
    """One model of the mixture."""

    share: float  # its weight
    features: Features  # the fitted feature map
    theta: Tensor  # coefficients, shape (K, r)
    bias: Tensor  # intercepts, shape (K,)
    ridge: float  # λ


class OtherMember(NamedTuple):
    """A member of another kind, such as a forest."""

    share: float  # its weight
    model: ModelOfMember


@dataclass(frozen=True, repr=False)
class Mixture:
    """A trained model: members whose predictions are mixed, with shares that sum to 1."""

    loss: Loss
    members: tuple[NewtonMember, ...]  # Newton fits, the largest share first
    rows: float  # the number of training rows, which bounds probabilities away from 0 and 1
    others: tuple[OtherMember, ...] = ()

    @classmethod
    def of(cls, result: SearchResult) -> Mixture:
        """Make the model from a search."""
        members = []
        for share, fit in result.members:
            state = fit.run.state
            (bias,) = state.head.values()
            members.append(NewtonMember(share, fit.features, state.theta, bias, fit.ridge))
        others = tuple(OtherMember(share, one.model) for share, one in result.other_members)
        return cls(result.objective.loss, tuple(members), row_count(result.best.rows), others)

    def main_features(self) -> Features:
        """The feature map whose members have the largest share."""
        shares: dict[int, float] = {}
        for member in self.members:
            shares[id(member.features)] = shares.get(id(member.features), 0.0) + member.share
        main = max(shares, key=lambda key: shares[key])
        return next(one.features for one in self.members if id(one.features) == main)

    def selected_columns(self) -> list[SelectedColumn]:
        """The columns that the other member of the largest share selects, if any does."""
        ordered = sorted(self.others, key=lambda other: -other.share)
        selections = [columns for other in ordered if (columns := other.model.selected_columns())]
        return selections[0] if selections else []

    @cached_property
    def numbers(self) -> predictor.Mixture:
        """The same for NumPy."""
        maps = {id(member.features): member.features for member in self.members}
        number = {key: k for k, key in enumerate(maps)}
        return predictor.Mixture(
            tuple(partial(features_of, one) for one in maps.values()),
            tuple(one.map_.values.numpy() for one in maps.values()),
            tuple(
                predictor.LinearMember(
                    one.share, number[id(one.features)], one.theta.numpy(), one.bias.numpy(),
                    one.ridge,
                )
                for one in self.members
            ),
            tuple(
                predictor.Other(share, partial(_predictions, model), partial(_changes, model))
                for share, model in self.others
            ),
            self.rows,
            self.loss.name,
        )  # fmt: skip

    def predict(self, X: Any) -> Floats:
        """Probabilities of all classes, or numbers, shape (m, K)."""
        result: Floats = self.numbers.predict(X)
        return result

    def __repr__(self) -> str:
        named = [(one.share, one.features.name) for one in self.members]
        named += [(share, model.name) for share, model in self.others]
        named.sort(key=lambda one: -one[0])
        shown = [f"{share:.2f} {name}" for share, name in named[:SHOWN]]
        rest = [f"{len(named) - SHOWN} more"] if len(named) > SHOWN else []
        return f"Mixture({', '.join(shown + rest)})"


def features_of(features: Features, X: Any) -> Floats:
    """The features of rows as an array, shape (m, r)."""
    return features.transform(X).numpy()


def _predictions(model: ModelOfMember, X: Any) -> Floats:
    return model.predict(X).numpy()


def _changes(model: ModelOfMember, X: Any, kept: NDArray[Any]) -> Floats:
    return model.changes(X, KeptRows(torch.from_numpy(kept))).numpy()


def describe_mixture(mixture: Mixture) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Describe a mixture of models: feature maps, coefficients, shares."""
    maps = {id(member.features): member.features for member in mixture.members}
    numbers = {key: number for number, key in enumerate(maps)}
    tensors: dict[str, Tensor] = {}
    described = []
    for number, features in enumerate(maps.values()):
        settings, parts = features.state()
        described.append(settings)
        tensors |= {f"map.{number}.{name}": value for name, value in parts.items()}
    members = []
    for index, (share, features, theta, bias, ridge) in enumerate(mixture.members):
        number = numbers[id(features)]
        members.append({"share": float(share), "map": number, "ridge": float(ridge)})
        tensors |= {f"member.{index}.theta": theta, f"member.{index}.bias": bias}
    others = []
    for index, (share, model) in enumerate(mixture.others):
        settings, parts = model.state()
        others.append({"share": float(share), "model": settings})
        tensors |= {f"other.{index}.{name}": value for name, value in parts.items()}
    about = {"loss": mixture.loss.name, "rows": mixture.rows, "maps": described, "members": members}
    return tensors, about | {"others": others}


def rebuild_mixture(content: Any, tensors: dict[str, Tensor], loss: Loss, outputs: int) -> Mixture:
    """Restore a mixture from a file that was checked."""
    require(content["loss"] == loss.name, f"it has the loss {content['loss']!r:.20}")
    maps = [
        restore(settings, _starting_with(f"map.{number}.", tensors))
        for number, settings in enumerate(content["maps"])
    ]
    members = []
    for k, about in enumerate(content["members"]):
        theta, bias = (tensors[f"member.{k}.{name}"].clone() for name in ("theta", "bias"))
        share, ridge = float(about["share"]), float(about["ridge"])
        members.append(NewtonMember(share, maps[about["map"]], theta, bias, ridge))
    width = max(outputs, 2 * loss.has_classes)
    others = tuple(
        OtherMember(
            float(about["share"]),
            restore_member(about["model"], _starting_with(f"other.{k}.", tensors), width),
        )
        for k, about in enumerate(content["others"])
    )
    return Mixture(loss, tuple(members), content["rows"], others)


def _starting_with(start: str, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the tensors whose names start with a text, by the rest of their names."""
    return {k.removeprefix(start): v.clone() for k, v in tensors.items() if k.startswith(start)}
