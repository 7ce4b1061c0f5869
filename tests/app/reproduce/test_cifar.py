"""The CIFAR figure: rows from the pool, three whitenings, and the gaps on the real embeddings."""

import re

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.reproduce import cifar
from decoupled_descent.app.reproduce.experiment import default_theta, streams
from decoupled_descent.datasets.embeddings import CATS_DOGS, load_embeddings
from tests.app.reproduce.small_data import write_embeddings
from tests.real_data import real_data

SMALL = cifar.CIFAR.settings | {"n": 100, "width": 2, "steps": 8, "replications": 2}


@pytest.fixture
def data(tmp_path):
    write_embeddings(tmp_path)
    return tmp_path


def test_train_and_test_rows_are_drawn_without_overlap(data):
    pool = load_embeddings(data / f"{CATS_DOGS}.npz")
    (X, y), (X_test, y_test) = cifar.draw_rows(SMALL, 0, data)
    rows = torch.cat([X, X_test]).numpy()
    assert rows.shape == (200, 12)
    found = [int(np.flatnonzero((row == pool.X).all(1))[0]) for row in rows]
    assert len(set(found)) == 200
    np.testing.assert_array_equal(pool.y[found], torch.cat([y, y_test]).numpy())
    assert 0.3 < y.mean() < 0.7, "shuffled, although the file is sorted by class"
    assert not torch.equal(X, cifar.draw_rows(SMALL, 1, data)[0][0])


def test_too_few_embeddings(data):
    with pytest.raises(ValueError, match="n=200 train and test rows do not fit in 240"):
        cifar.draw_rows(SMALL | {"n": 200}, 0, data)


def test_whitening(data):
    (X, _), (X_test, _) = cifar.draw_rows(SMALL, 0, data)
    covariances = {}
    for method in ("vanilla", "zca", "joint"):
        train, test = (x.double() for x in cifar.whiten(method, X, X_test))
        both = torch.cat([train, test])
        covariances[method] = {
            "train": train.T @ train / 99 * 12,
            "joint": both.T @ both / 199 * 12,
        }
    eye = torch.eye(12, dtype=torch.float64)
    torch.testing.assert_close(covariances["zca"]["train"], eye, atol=1e-4, rtol=0)
    torch.testing.assert_close(covariances["joint"]["joint"], eye, atol=1e-4, rtol=0)
    diagonal = covariances["vanilla"]["train"].diagonal()
    torch.testing.assert_close(diagonal, eye.diagonal() * 100 / 99, atol=1e-4, rtol=0)
    for method, kind in (("vanilla", "train"), ("zca", "joint"), ("joint", "train")):
        assert not torch.allclose(covariances[method][kind], eye, atol=0.05)


@pytest.mark.parametrize("method", ["vanilla", "zca", "joint", "orthogonal"])
def test_training(data, method):
    (X, y), (X_test, y_test) = cifar.draw_rows(SMALL, 1, data)
    white, white_test = cifar.whiten(method, X, X_test)
    theta_seed, head_seed = streams(1, 3)[1:]
    objective = dd.Objective(dd.heads.TwoLayer(2, seed=head_seed), "logistic")
    name, kind = (
        ("orthogonal", dd.OrthogonalDecoupledDescent)
        if method == "orthogonal"
        else ("dd", dd.DecoupledDescent)
    )
    algorithm = kind(1.0 / 100, head_lr=1.0)  # the mean loss, by hand: lr / n and lr
    run = dd.fit(
        white,
        y,
        objective,
        algorithm,
        steps=8,
        theta=default_theta(2, 12, theta_seed),
        test=(white_test, y_test),
        progress=False,
    )
    curves = cifar.CIFAR.replicate(SMALL, 1, data)
    np.testing.assert_allclose(curves[f"{method}/{name}/train"], run.train_error, rtol=1e-5)
    np.testing.assert_allclose(curves[f"{method}/{name}/test"], run.test_error, rtol=1e-5)


def test_other_embeddings_are_another_experiment(data):
    first = cifar.prepare(data)
    assert first["d"] == 12
    write_embeddings(data, d=10, seed=1)
    cifar._load.cache_clear()
    second = cifar.prepare(data)
    assert second["d"] == 10
    assert first["embeddings"] != second["embeddings"]


def test_findings_and_figure(data):
    settings = SMALL | cifar.prepare(data)
    runs = [cifar.CIFAR.replicate(settings, seed, data) for seed in range(2)]
    curves = {name: np.stack([run[name] for run in runs]) for name in runs[0]}
    panels = cifar.CIFAR.summarise(curves)
    text = cifar.CIFAR.findings(settings, panels)
    gaps = {p["name"]: p["curves"][1]["mean_absolute_gap"] for p in panels}
    found = re.search(r"gaps in order: (.*?)\. ", text).group(1)
    assert re.findall(r"[0-9.]+", found) == [f"{gap:.3f}" for gap in sorted(gaps.values())]
    assert f"orthogonal ({gaps['orthogonal']:.3f})" in found
    factors = re.search(r"these factors: (.*)\.", text).group(1)
    for panel in panels:
        gradient, decoupled = (curve["mean_absolute_gap"] for curve in panel["curves"])
        assert f" {gradient / decoupled:.1f}" in factors
    titles = [ax.get_title() for ax in cifar.CIFAR.draw(settings, curves).axes]
    assert titles[2:4] == ["ZCA (train): gradient descent", "ZCA (train): decoupled descent"]
    assert titles[-1] == "Vanilla again: orthogonal decoupled descent"


@pytest.mark.data
@pytest.mark.slow
def test_what_the_paper_shows():
    """DD's gap is several times smaller than GD's, joint ZCA's below ZCA's, ours below vanilla."""
    data = real_data(f"{CATS_DOGS}.npz")
    curves = cifar.CIFAR.replicate(cifar.CIFAR.settings, 0, data)
    panels = cifar.CIFAR.summarise({name: values[None] for name, values in curves.items()})
    gaps = {
        panel["name"]: [curve["mean_absolute_gap"] for curve in panel["curves"]] for panel in panels
    }
    for gradient, decoupled in gaps.values():
        assert gradient > 3 * decoupled
    assert gaps["joint"][1] < gaps["zca"][1] / 2
    assert gaps["orthogonal"][1] < gaps["vanilla"][1] / 2
