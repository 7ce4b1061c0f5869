"""Levels: which columns have them, what kernels see of them, files."""

import numpy as np
import pytest
import torch
from scipy.sparse import csr_matrix

from decoupled_descent.rows.blocks import Rows
from decoupled_descent.tables.features.candidates import as_features, restore
from decoupled_descent.tables.features.kernel_map import Kernel
from decoupled_descent.tables.features.levels import MOST, Levels, find_levels
from decoupled_descent.tables.search.search import search_models


def rows(n=60, seed=0):
    """A number, a column of four levels, one of two values, one of many whole numbers."""
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=n), rng.permutation(n) % 4 + 1, rng.permutation(n) % 2, np.arange(n)]
    return torch.from_numpy(np.stack(columns, 1).astype(float))


def by_hand(X):
    return torch.cat([X[:, [0, 2, 3]], torch.stack([X[:, 1] == v for v in (1, 2, 3, 4)], 1)], 1)


def test_only_few_whole_numbers_are_levels():
    columns, values = find_levels(rows())
    assert columns.tolist() == [1] * 4
    assert values.tolist() == [1, 2, 3, 4]
    many = (torch.arange(300) % (MOST + 1)).double().unsqueeze(1)
    assert not len(find_levels(many)[0])
    assert not len(find_levels(torch.arange(5).double().unsqueeze(1))[0])


@pytest.mark.parametrize("name", ["laplace1(0.5)", "linear", "rbf(1)"])
def test_features_are_those_of_columns_of_zeros_and_ones(name):
    X, fresh = rows(), rows(20, seed=1)
    (levels,), kernel = as_features(f"{name}/levels"), Kernel.from_name(name)
    assert levels.name == f"{name}/levels"
    assert levels.is_linear == kernel.is_linear
    phi = levels.fit_transform(X)
    torch.testing.assert_close(phi, kernel.fit_transform(by_hand(X)), rtol=0, atol=0)
    torch.testing.assert_close(levels.transform(fresh), kernel.transform(by_hand(fresh)))


def test_a_new_value_is_no_level():
    X = rows()
    levels = Levels("linear").fit(X)
    new = X[:1].clone()
    new[0, 1] = 9.0
    assert levels._expanded(new)[0, -4:].tolist() == [0.0] * 4


def test_files():
    levels = Levels("laplace1", 2.0).fit(rows())
    settings, tensors = levels.state()
    again = restore(settings, tensors)
    torch.testing.assert_close(again.transform(rows(9)), levels.transform(rows(9)), rtol=0, atol=0)
    assert again.name == levels.name


def test_rows_without_levels_and_sparse_rows():
    X = rows()
    assert Levels().suits(X)
    assert Levels().suits(Rows(X))
    assert not Levels().suits(X[:, [0, 2]])
    assert not Levels().suits(csr_matrix(X.numpy()))
    with pytest.raises(ValueError, match="sparse"):
        Levels().fit(csr_matrix(X.numpy()))
    assert Levels.from_name("rbf/ranks/levels") is None
    assert Levels.from_name("rbf") is None


def test_levels_are_chosen_where_they_matter():
    X = rows(120)
    y = torch.isin(X[:, 1], torch.tensor([1.0, 3.0]).double()).double()
    found = search_models(X, y, "logistic", progress=False)
    assert found.best.features.name.endswith("/levels")
    plain = search_models(X[:, [0, 2]], y, "logistic", progress=False)
    assert not any(name.endswith("/levels") for name, _ in plain.ranking)
