"""Descriptions of features, and maps fitted together."""

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.metrics.pairwise import rbf_kernel

from decoupled_descent.tables.features import Kernel, Transformed, as_features, fit_all
from decoupled_descent.tables.features.candidates import AUTO
from tests.problems import normal


@pytest.mark.parametrize("name", AUTO)
def test_names_are_read_as_they_are_written(name):
    (features,) = as_features(name)
    assert features.name == name


def test_descriptions():
    assert [f.name for f in as_features("auto")] == list(AUTO)
    assert as_features("rbf(0.5)/ranks")[0].get_params() == Kernel("rbf", 0.5, True).get_params()
    own, transformed = as_features([rbf_kernel, PCA(2)])
    assert own.kind is rbf_kernel
    assert isinstance(transformed, Transformed)
    kernel = Kernel("matern", landmarks=7).fit(normal(9, 2))
    (copy,) = as_features(kernel)
    assert copy.get_params() == kernel.get_params()
    assert not hasattr(copy, "map_")


@pytest.mark.parametrize(
    "spec",
    ["rbff", "rbf(", "rbf(x)", "rbf(-1)", "linear(2)", "rbf/rank", "", None, 3, [], PCA, ["x"]],
)
def test_bad_descriptions_are_refused(spec):
    with pytest.raises(ValueError, match=r"features=|scale="):
        as_features(spec)


def test_maps_fitted_together_are_those_fitted_alone():
    X, weights = normal(30, 3), np.arange(30) % 4
    names = ["rbf", "matern(2)/ranks", "laplace1", "linear", "arccos"]
    together = list(fit_all([*as_features(names), Transformed(PCA(2))], X, weights))
    for features, phi in together[:-1]:
        alone = as_features(features)[0].fit_transform(X, sample_weight=weights)
        assert torch.equal(phi, alone)
    assert together[-1][1].shape == (30, 2)
