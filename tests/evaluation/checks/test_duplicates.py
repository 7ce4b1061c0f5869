"""Duplicate rows, against brute force and on rows of given laws; and their effect."""

import math

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.checks import duplicates
from tests.oracles.newton import refits, squared
from tests.problems import normal

#: From where on copies are a caution, as the optimism to expect in standard errors.
CAUTION = 0.25


def share(X):
    return duplicates.find(dd.Rows(X)).share


def priced(X):
    return share(X) * 0.5 * X.shape[1] ** 0.5


def test_duplicate_share_by_brute_force():
    n, d = 60, 8
    X = normal(n, d, seed=3)
    X[50:] = X[:10] * 1.001
    twins = 0
    for i in range(n):
        shares = sorted(
            float((X[i] - X[j]).square().sum() / (X[i].square().sum() + X[j].square().sum()))
            for j in range(n)
            if j != i
        )
        usual = shares[math.ceil(math.sqrt(n)) - 1] * n ** (-1 / d)
        twins += shares[0] < min(duplicates.NEAR, duplicates.UNUSUAL * usual)
    assert share(X) == twins / n == 20 / 60


def mixed(n, numbers, levels, seed=0):
    """Independent rows of Gaussian numbers and one-hot categories, every column standardised."""
    rng = np.random.default_rng(seed)
    hot = [np.eye(k)[rng.integers(k, size=n)] for k in levels]
    X = np.hstack([rng.normal(size=(n, numbers)), *hot])
    return torch.from_numpy((X - X.mean(0)) / X.std(0) / X.shape[1] ** 0.5)


@pytest.mark.parametrize("n", [300, 1000, 3000])
@pytest.mark.parametrize("levels", [(5,), (3, 3), (20, 20), (5, 5, 5)], ids=str)
@pytest.mark.parametrize("numbers", [1, 2, 3])
def test_rows_that_share_categories_are_no_duplicates(n, levels, numbers):
    """They lie on lines, planes or in cells of a few rows, however many columns there are."""
    X = mixed(n, numbers, levels)
    assert priced(X) < CAUTION / 2


@pytest.mark.parametrize("jitter", [0.0, 1e-4, 1e-3])
@pytest.mark.parametrize(("numbers", "levels"), [(2, (5,)), (3, (4, 5)), (2, (20, 20))], ids=str)
def test_copies_among_rows_that_share_categories(numbers, levels, jitter):
    X = mixed(500, numbers, levels)
    noise = normal(100, numbers) / X.shape[1] ** 0.5
    X[400:] = X[:100]
    X[400:, :numbers] += jitter * noise
    assert share(X) == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_small_groups_of_copies(jitter):
    """Fifteen of each, when the √n-th neighbour is the eighteenth: another group's."""
    X = normal(20, 30).repeat(15, 1)
    X += jitter * normal(*X.shape, seed=1)
    assert share(X) > 0.5


def test_rows_along_a_curve_are_no_duplicates():
    t = torch.rand(500, 1, generator=torch.Generator().manual_seed(0)).double()
    X = torch.cat([(6 * t).cos(), (6 * t).sin(), (13 * t).cos(), (9 * t).sin()], 1)
    assert share(X) < 0.05


def test_cells_of_a_discrete_law_are_no_duplicates():
    """500 rows in 8 cells: each has dozens at distance 0, and so will a new row."""
    assert share((normal(500, 3) > 0).double()) == 0


def test_twins_among_more_rows_than_are_compared():
    X = normal(duplicates.COMPARED + 1000, 20)
    X[1500:] = X[:1500]
    assert share(X) == 1


@pytest.mark.parametrize(
    ("levels", "rows"), [((5, 5), 300), ((3, 4, 6), 1000), ((12, 12, 12), 2000)]
)
def test_tables_of_categories_are_no_duplicates(levels, rows):
    """Cells hold a few rows each, fewer than √n: they coincide by chance."""
    generator = torch.Generator().manual_seed(0)
    codes = [torch.randint(k, (rows,), generator=generator) for k in levels]
    X = torch.cat([torch.nn.functional.one_hot(c).double() for c in codes], 1)
    X = (X - X.mean(0)) / X.std(0) / X.shape[1] ** 0.5
    assert priced(X) < CAUTION


def test_copies_of_rows_of_coarse_numbers_are_found():
    generator = torch.Generator().manual_seed(0)
    X = torch.randint(40, (600, 5), generator=generator).double()
    X = torch.cat([X, X[:120]])
    assert share(X) == pytest.approx(240 / 720, abs=0.01)


def trained(X, y, **rows):
    objective = dd.Objective(dd.heads.Linear(intercept=True).double(), "squared")
    data = dd.Rows(X, y, **rows)
    return dd.fit(data, None, objective, dd.DecoupledNewton(0.5), progress=False), data


def refitted(X, y, groups):
    """Losses of rows after refits without their groups, as the named loss counts them."""
    outputs = torch.from_numpy(refits(X.numpy(), y.numpy(), squared, 0.5, groups=groups))
    return dd.Objective(dd.heads.Linear(), "squared").loss.of(outputs, y)


def test_the_rise_is_that_of_refits():
    """Pairs and a group of four copies; squared loss, for which leaving out is exact."""
    X, y = normal(40, 4), normal(40, seed=1)
    X[30:36], X[36:38] = X[:6], X[5]
    run, rows = trained(X, y)
    found = duplicates.find(dd.Rows(X))
    assert found.is_duplicate.nonzero().squeeze(1).tolist() == [*range(6), *range(30, 38)]
    joined = np.array([*range(30), *range(6), 5, 5, 38, 39])
    rise = refitted(X, y, joined) - refitted(X, y, np.arange(40))
    assert duplicates.rise_without(run, rows, found) == pytest.approx(float(rise.mean()), rel=1e-6)


def test_groups_that_hold_copies_leave_together():
    X, y = normal(40, 4), normal(40, seed=1)
    X[30:] = X[:10]
    groups = torch.arange(40) // 2
    run, rows = trained(X, y, groups=groups)
    joined = np.where(groups >= 15, groups - 15, groups)
    rise = refitted(X, y, joined) - refitted(X, y, groups.numpy())
    found = duplicates.rise_without(run, rows, duplicates.find(rows))
    assert found == pytest.approx(float(rise.mean()), rel=1e-6)


@pytest.mark.parametrize(("copied", "expected"), [(60, "do not trust"), (0, "trust")])
def test_the_verdict_on_copies_of_noisy_rows(copied, expected):
    """A quarter of the rows twice, with labels that are mostly noise: the model knows them."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 20))
    y = X[:, 0] + 2 * rng.normal(size=240)
    X[240 - copied :], y[240 - copied :] = X[:copied], y[:copied]
    model = dd.DecoupledRegressor(features="rbf", ridge=0.1).fit(X, y)
    assert model.diagnostics_.verdict == expected


def test_copies_that_teach_nothing_do_no_harm():
    """Six columns and a linear model: a row learns next to nothing from its copy."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 6))
    y = X @ np.ones(6) + rng.normal(size=400)
    X[360:], y[360:] = X[:40], y[:40]
    model = dd.DecoupledRegressor(features="linear", ridge=1.0).fit(X, y)
    (found,) = (one for one in model.diagnostics_.findings if one.name == "duplicate rows")
    assert "20.0\u00a0%" in found.reason
    assert found.status in ("ok", "note")
    assert model.diagnostics_.verdict == "trust"
