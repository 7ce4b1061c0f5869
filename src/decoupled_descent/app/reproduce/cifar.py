r"""Cats against dogs: a small network on ResNet-18 embeddings of CIFAR-10, whitened in three ways.

A fourth panel, not in the paper, has orthogonal decoupled descent on the features of the first,
which are standardised and still correlated.

The paper states n = 800, d = 512 and width 5; the rest is taken from its MNIST listing, which it
calls similar: PyTorch's default start, mean loss, lr 1, 500 steps and 20 runs.
"""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

import decoupled_descent as dd
from decoupled_descent.app.reproduce import experiment as shared
from decoupled_descent.app.reproduce.experiment import Experiment, Labelled, PanelProblem, Settings
from decoupled_descent.app.reproduce.summary import Panel, measure, written
from decoupled_descent.datasets.embeddings import find_cats_dogs, load_embeddings
from decoupled_descent.datasets.whitening import Whitening

_load = functools.lru_cache(maxsize=1)(load_embeddings)  # once per process


def prepare(data: Path | None) -> Settings:
    """Find the embeddings, and note their dimension and checksum."""
    path = find_cats_dogs(data)
    d = _load(path).X.shape[1]
    return {"d": d, "embeddings": hashlib.sha256(path.read_bytes()).hexdigest()[:16]}


def draw_rows(settings: Settings, seed: int, data: Path | None) -> tuple[Labelled, Labelled]:
    """Draw n train rows and n test rows from all cats and dogs, without overlap."""
    pool, n = _load(find_cats_dogs(data)), settings["n"]
    if len(pool.X) < 2 * n:
        raise ValueError(f"n={n} train and test rows do not fit in {len(pool.X)} embeddings")
    chosen = np.random.default_rng(shared.streams(seed, 1)[0]).permutation(len(pool.X))[: 2 * n]
    X, y = torch.from_numpy(pool.X[chosen]), torch.from_numpy(pool.y[chosen]).float()
    return (X[:n], y[:n]), (X[n:], y[n:])


def whiten(method: str, X: torch.Tensor, X_test: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Whiten by the train rows (``"zca"``), by all rows (``"joint"``), or only standardise.

    Paper: Section sec:embedding.
    """
    whitening = Whitening("zca" if method in ("zca", "joint") else "vanilla")
    whitening.fit(X.numpy(), pool=X_test.numpy() if method == "joint" else None)
    white, white_test = (torch.from_numpy(whitening.transform(x.numpy())) for x in (X, X_test))
    return white, white_test


def problems(settings: Settings, seed: int, data: Path | None) -> Iterator[PanelProblem]:
    """GD and DD on the same rows, whitened in every way, from the same start."""
    (X, y), (X_test, y_test) = draw_rows(settings, seed, data)
    theta_seed, head_seed = shared.streams(seed, 3)[1:]
    lr, width = settings["lr"], settings["width"]
    theta = shared.default_theta(width, X.shape[1], theta_seed)
    objective = dd.Objective(dd.heads.TwoLayer(width, seed=head_seed), "logistic")
    gradient = dd.GradientDescent(lr, reduction="mean")
    pure = dd.DecoupledDescent(lr, reduction="mean")
    orthogonal = dd.OrthogonalDecoupledDescent(lr, ridge=settings["ridge"], reduction="mean")
    for panel in settings["panels"]:
        second = {"orthogonal": orthogonal} if panel == "orthogonal" else {"dd": pure}
        white, white_test = whiten(panel, X, X_test)
        rows, test = (white, y), (white_test, y_test)
        yield PanelProblem(panel, rows, test, objective, {"gd": gradient} | second, theta)


def order(panels: list[Panel]) -> list[str]:
    """Compare the gaps of decoupled descent with each other and with those of gradient descent."""
    gaps = {}
    for panel in panels:
        name = panel["curves"][1]["algorithm"]
        gaps[written(panel["name"]) if name == "dd" else name] = measure(panel, name)
    ratios = [
        f"{written(panel['name'])} {measure(panel, 'gd') / gap:.1f}"
        for panel, gap in zip(panels, gaps.values(), strict=True)
    ]
    listed = " < ".join(f"{name} ({gaps[name]:.3f})" for name in sorted(gaps, key=gaps.__getitem__))
    return [
        f"Decoupled descent's gaps in order: {listed}.",
        f"Those of gradient descent are larger by these factors: {', '.join(ratios)}.",
    ]


COMMON = {"n": 800, "d": 512, "width": 5, "lr": 1.0, "reduction": "mean", "steps": 500}
PANELS = ["vanilla", "zca", "joint", "orthogonal"]

CIFAR = Experiment(
    name="cifar",
    title="CIFAR-10 embeddings: cats against dogs",
    label="fig:cifar",
    settings=COMMON | {"panels": PANELS, "ridge": 1.0, "replications": 20},
    quick={"replications": 4},
    prepare=prepare,
    problems=problems,
    heading="CIFAR-10, cats against dogs",
    shown=("n", "d", "width"),
    remarks=order,
)
