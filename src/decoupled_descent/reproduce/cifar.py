r"""Cats against dogs: a small network on ResNet-18 embeddings of CIFAR-10, whitened in three ways.

A fourth panel, not in the paper, has orthogonal decoupled descent on the features of the first,
which are standardised but as correlated as they come.

The paper states n = 800, d = 512 and width 5; the rest is taken from its MNIST listing, which it
calls similar: PyTorch's default start, mean loss, lr 1, 500 steps and 20 runs.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.figure import Figure

from decoupled_descent.datasets.embeddings import Embeddings, find_cats_dogs, load_embeddings
from decoupled_descent.datasets.whitening import Whitening
from decoupled_descent.descent import (
    DecoupledDescent,
    GradientDescent,
    OrthogonalDecoupledDescent,
)
from decoupled_descent.objective import Objective
from decoupled_descent.objective.heads import TwoLayer
from decoupled_descent.reproduce.drawing import error_grid
from decoupled_descent.reproduce.experiment import (
    Curves,
    Experiment,
    Rows,
    Settings,
    default_theta,
    streams,
    train,
)
from decoupled_descent.reproduce.summary import (
    NAMES,
    divergences,
    last,
    lowest,
    measure,
    summarise_errors,
)

HEADINGS = {
    "vanilla": "Vanilla",
    "zca": "ZCA (train)",
    "joint": "Joint ZCA",
    "orthogonal": "Vanilla again",
}


@functools.lru_cache(maxsize=1)
def _load(path: Path) -> Embeddings:
    """Load the embeddings once per process."""
    return load_embeddings(path)


def prepare(data: Path | None) -> Settings:
    """Find the embeddings, and note their dimension and checksum."""
    path = find_cats_dogs(data)
    d = _load(path).X.shape[1]
    return {"d": d, "embeddings": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}


def draw_rows(settings: Settings, seed: int, data: Path | None) -> tuple[Rows, Rows]:
    """Draw train and test rows from the pool of all cats and dogs, no row into both.

    Args:
        settings: Gives n, the number of train rows and of test rows.
        seed: Of the replication; its first stream is used here.
        data: The folder of data sets.

    Returns:
        Features (not scaled) and labels of the train rows and of the test rows.
    """
    pool, n = _load(find_cats_dogs(data)), settings["n"]
    if len(pool.X) < 2 * n:
        raise ValueError(f"n={n} train and test rows do not fit in {len(pool.X)} embeddings")
    chosen = np.random.default_rng(streams(seed, 1)[0]).permutation(len(pool.X))[: 2 * n]
    X, y = torch.from_numpy(pool.X[chosen]), torch.from_numpy(pool.y[chosen]).float()
    return (X[:n], y[:n]), (X[n:], y[n:])


def whiten(method: str, X: torch.Tensor, X_test: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale the features in one of the paper's three ways.

    Args:
        method: ``"zca"`` (of the train rows), ``"joint"`` (of all rows); no whitening otherwise.
        X: Train features.
        X_test: Test features.

    Returns:
        Both, transformed.

    Paper: Section sec:embedding.
    """
    whitening = Whitening("zca" if method in ("zca", "joint") else "vanilla")
    whitening.fit(X.numpy(), pool=X_test.numpy() if method == "joint" else None)
    white, white_test = (torch.from_numpy(whitening.transform(x.numpy())) for x in (X, X_test))
    return white, white_test


def replicate(settings: Settings, seed: int, data: Path | None = None) -> Curves:
    """Train GD and DD on the same rows, whitened in every way, from the same start."""
    (X, y), (X_test, y_test) = draw_rows(settings, seed, data)
    theta_seed, head_seed = streams(seed, 3)[1:]
    lr, steps, width = (settings[name] for name in ("lr", "steps", "width"))
    theta = default_theta(width, X.shape[1], theta_seed)
    objective = Objective(TwoLayer(width, seed=head_seed), "logistic")
    curves: Curves = {}
    gradient = GradientDescent(lr, reduction="mean")
    pure = DecoupledDescent(lr, reduction="mean")
    orthogonal = OrthogonalDecoupledDescent(lr, ridge=settings["ridge"], reduction="mean")
    for panel in settings["panels"]:
        white, white_test = whiten(panel, X, X_test)
        rows, test = (white, y), (white_test, y_test)
        second = ("orthogonal", orthogonal) if panel == "orthogonal" else ("dd", pure)
        for name, algorithm in (("gd", gradient), second):
            curves |= train(f"{panel}/{name}", rows, test, objective, algorithm, steps, theta)
    return curves


def draw(settings: Settings, curves: Curves) -> Figure:
    """One row per panel: gradient descent left, decoupled descent right."""
    title = (
        f"CIFAR-10, cats against dogs: n = {settings['n']}, d = {settings['d']}, "
        f"L = {settings['width']}, {settings['replications']} runs"
    )
    return error_grid(curves, title, "cross-entropy", HEADINGS)


def findings(settings: Settings, panels: list[dict[str, Any]]) -> str:
    """Say how much smaller DD's gap is than GD's under every whitening."""
    sentences, gaps = [], {}
    for panel in panels:
        name = panel["curves"][1]["algorithm"]
        gradient, decoupled = (measure(panel, k, "mean_absolute_gap") for k in ("gd", name))
        gaps[panel["name"]] = decoupled
        best, step = lowest(panel, name, "test")
        sentences.append(
            f"{HEADINGS[panel['name']]}: gradient descent ends with train error "
            f"{last(panel, 'gd', 'train'):.3f} and test error {last(panel, 'gd', 'test'):.3f}, "
            f"{NAMES[name]} with {last(panel, name, 'train'):.3f} and "
            f"{last(panel, name, 'test'):.3f} (lowest {best:.3f}, at step {step}); the mean "
            f"absolute gap is {gradient:.3f} against {decoupled:.3f}, {gradient / decoupled:.1f} "
            "times as much."
        )
    names = HEADINGS | {"orthogonal": "orthogonal"}
    order = " < ".join(f"{names[k]} ({gaps[k]:.3f})" for k in sorted(gaps, key=gaps.__getitem__))
    return (
        f"Medians over {settings['replications']} runs after {settings['steps']} steps. "
        + " ".join(sentences)
        + f" Decoupled descent's gaps in order: {order}."
        + divergences(panels)
    )


CIFAR = Experiment(
    name="cifar",
    title="CIFAR-10 embeddings: cats against dogs",
    label="fig:cifar",
    settings={
        "n": 800,
        "d": 512,
        "width": 5,
        "panels": list(HEADINGS),
        "ridge": 1.0,
        "lr": 1.0,
        "reduction": "mean",
        "steps": 500,
        "replications": 20,
    },
    quick={"replications": 4},
    replicate=replicate,
    summarise=summarise_errors,
    draw=draw,
    findings=findings,
    prepare=prepare,
)
