r"""Noisy MNIST, zeros against eights, with two-layer networks of growing width.

Rows are λ x/d + z, x an image with values in [0, 1] and z three-point noise of variance 1/d; the
network is aᵀ tanh(xᵀθ) under cross-entropy, with PyTorch's default start, mean loss and lr 1.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import torch

import decoupled_descent as dd
from decoupled_descent.app.reproduce import experiment as shared
from decoupled_descent.app.reproduce.experiment import Experiment, Labelled, PanelProblem, Settings
from decoupled_descent.app.reproduce.summary import Panel, apart, lowest, written
from decoupled_descent.datasets.mnist import add_noise, load_mnist, two_digits

_load = functools.lru_cache(maxsize=1)(load_mnist)  # once per process


def prepare(data: Path | None) -> Settings:
    """Find MNIST, or download it; it is always the same, so nothing is added to the settings."""
    _load(data)
    return {}


def noisy_digits(settings: Settings, seed: int, data: Path | None) -> tuple[Labelled, Labelled]:
    """Draw n training rows from MNIST's train part; the test rows are all of its test part.

    Only zeros and eights are used, and the first three streams of the replication's seed.
    """
    mnist = _load(data)
    choice_seed, noise_seed, test_seed = shared.streams(seed, 3)
    images, labels = two_digits(mnist.train_images, mnist.train_labels)
    generator = torch.Generator().manual_seed(choice_seed)
    chosen = torch.randperm(len(images), generator=generator)[: settings["n"]]
    test_images, test_labels = two_digits(mnist.test_images, mnist.test_labels)
    rows = add_noise(images[chosen], settings["snr"], noise_seed), labels[chosen]
    return rows, (add_noise(test_images, settings["snr"], test_seed), test_labels)


def problems(settings: Settings, seed: int, data: Path | None) -> Iterator[PanelProblem]:
    """GD and DD with every width on the same rows, from the same start."""
    rows, test = noisy_digits(settings, seed, data)
    theta_seed, head_seed = shared.streams(seed, 5)[3:]
    algorithms = {
        "gd": dd.GradientDescent(settings["lr"], reduction="mean"),
        "dd": dd.DecoupledDescent(settings["lr"], reduction="mean"),
    }
    for width in settings["widths"]:
        theta = shared.default_theta(width, rows[0].shape[1], theta_seed)
        objective = dd.Objective(dd.heads.TwoLayer(width, seed=head_seed), "logistic")
        yield PanelProblem(f"L={width}", rows, test, objective, algorithms, theta)


def parting(panels: list[Panel]) -> list[str]:
    """Up to which step the two errors of decoupled descent agree, in a sentence."""
    sentences = []
    for panel in panels:
        _, step = lowest(panel, "dd", "test")
        distance = apart(panel, "dd")
        sentences.append(
            f"{written(panel['name'])}: up to step {step} the median train and test errors of "
            f"decoupled descent differ by at most {distance[: step + 1].max():.3f}, at the last "
            f"step by {distance[-1]:.3f}."
        )
    return sentences


#: What the paper's listing states.
COMMON = {"n": 800, "d": 784, "snr": 30.0, "lr": 1.0, "reduction": "mean", "steps": 500}

MNIST = Experiment(
    name="mnist",
    title="MNIST: zeros against eights",
    label="fig:lossGDvDD",
    settings=COMMON | {"widths": [3, 9, 27], "replications": 20},
    quick={"replications": 3},
    prepare=prepare,
    problems=problems,
    heading="MNIST, zeros against eights",
    shown=("n", "d", "snr"),
    remarks=parting,
)
