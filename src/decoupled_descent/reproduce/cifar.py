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

import numpy as np
import torch
from matplotlib.figure import Figure

import decoupled_descent as dd
from decoupled_descent.datasets.embeddings import Embeddings, find_cats_dogs, load_embeddings
from decoupled_descent.datasets.whitening import Whitening
from decoupled_descent.reproduce.drawing import error_grid, title
from decoupled_descent.reproduce.experiment import (
    Experiment,
    Labelled,
    Settings,
    default_theta,
    streams,
    train,
)
from decoupled_descent.reproduce.summary import (
    NAMES,
    Curves,
    Panel,
    last,
    lowest,
    measure,
    paragraph,
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


def draw_rows(settings: Settings, seed: int, data: Path | None) -> tuple[Labelled, Labelled]:
    """Draw n train rows and n test rows from the pool of all cats and dogs, no row into both."""
    pool, n = _load(find_cats_dogs(data)), settings["n"]
    if len(pool.X) < 2 * n:
        raise ValueError(f"n={n} train and test rows do not fit in {len(pool.X)} embeddings")
    chosen = np.random.default_rng(streams(seed, 1)[0]).permutation(len(pool.X))[: 2 * n]
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


def replicate(settings: Settings, seed: int, data: Path | None = None) -> Curves:
    """Train GD and DD on the same rows, whitened in every way, from the same start."""
    (X, y), (X_test, y_test) = draw_rows(settings, seed, data)
    theta_seed, head_seed = streams(seed, 3)[1:]
    lr, steps, width = (settings[name] for name in ("lr", "steps", "width"))
    theta = default_theta(width, X.shape[1], theta_seed)
    objective = dd.Objective(dd.heads.TwoLayer(width, seed=head_seed), "logistic")
    gradient = dd.GradientDescent(lr, reduction="mean")
    pure = dd.DecoupledDescent(lr, reduction="mean")
    orthogonal = dd.OrthogonalDecoupledDescent(lr, ridge=settings["ridge"], reduction="mean")
    curves: Curves = {}
    for panel in settings["panels"]:
        second = {"orthogonal": orthogonal} if panel == "orthogonal" else {"dd": pure}
        white, white_test = whiten(panel, X, X_test)
        rows, test = (white, y), (white_test, y_test)
        curves |= train(panel, rows, test, objective, {"gd": gradient} | second, steps, theta)
    return curves


def draw(settings: Settings, curves: Curves) -> Figure:
    """One row per panel: gradient descent left, decoupled descent right."""
    heading = title("CIFAR-10, cats against dogs", settings, "n", "d", "width")
    return error_grid(curves, heading, "cross-entropy", HEADINGS)


def findings(settings: Settings, panels: list[Panel]) -> str:
    """Say how much smaller DD's gap is than GD's under every whitening."""
    sentences, gaps = [], {}
    for panel in panels:
        name = panel["curves"][1]["algorithm"]
        gradient, decoupled = measure(panel, "gd"), measure(panel, name)
        gaps[HEADINGS[panel["name"]] if name == "dd" else "orthogonal"] = decoupled
        best, step = lowest(panel, name, "test")
        sentences.append(
            f"{HEADINGS[panel['name']]}: gradient descent ends with train error "
            f"{last(panel, 'gd', 'train'):.3f} and test error {last(panel, 'gd', 'test'):.3f}, "
            f"{NAMES[name]} with {last(panel, name, 'train'):.3f} and "
            f"{last(panel, name, 'test'):.3f} (lowest {best:.3f}, at step {step}); the mean "
            f"absolute gap is {gradient:.3f} against {decoupled:.3f}, {gradient / decoupled:.1f} "
            "times as much."
        )
    order = " < ".join(f"{k} ({gaps[k]:.3f})" for k in sorted(gaps, key=gaps.__getitem__))
    sentences.append(f"Decoupled descent's gaps in order: {order}.")
    return paragraph(settings, sentences, panels)


COMMON = {"n": 800, "d": 512, "width": 5, "lr": 1.0, "reduction": "mean", "steps": 500}

CIFAR = Experiment(
    name="cifar",
    title="CIFAR-10 embeddings: cats against dogs",
    label="fig:cifar",
    settings=COMMON | {"panels": list(HEADINGS), "ridge": 1.0, "replications": 20},
    quick={"replications": 4},
    replicate=replicate,
    draw=draw,
    findings=findings,
    prepare=prepare,
)
