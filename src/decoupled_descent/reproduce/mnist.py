r"""Noisy MNIST, zeros against eights, with two-layer networks of growing width.

Rows are λ x/d + z, x an image with values in [0, 1] and z three-point noise of variance 1/d; the
network is aᵀ tanh(xᵀθ) under cross-entropy, with PyTorch's default start, mean loss and lr 1.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure

from decoupled_descent.datasets.mnist import Mnist, add_noise, load_mnist, two_digits
from decoupled_descent.descent import DecoupledDescent, GradientDescent
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
    curve,
    divergences,
    last,
    lowest,
    measure,
    summarise_errors,
)


@functools.lru_cache(maxsize=1)
def _load(data: Path | None) -> Mnist:
    """Load MNIST once per process."""
    return load_mnist(data)


def prepare(data: Path | None) -> Settings:
    """Find MNIST, or download it; it is always the same, so nothing is added to the settings."""
    _load(data)
    return {}


def noisy_digits(settings: Settings, seed: int, data: Path | None) -> tuple[Rows, Rows]:
    """Draw the training rows of one replication, and the test rows: all zeros and eights.

    Args:
        settings: Gives n and λ.
        seed: Of the replication; its first three streams are used here.
        data: The folder of data sets.

    Returns:
        X and y of the training rows, out of MNIST's train part, and of the test rows, all of its
        test part.
    """
    mnist = _load(data)
    choice_seed, noise_seed, test_seed = streams(seed, 3)
    images, labels = two_digits(mnist.train_images, mnist.train_labels)
    generator = torch.Generator().manual_seed(choice_seed)
    chosen = torch.randperm(len(images), generator=generator)[: settings["n"]]
    test_images, test_labels = two_digits(mnist.test_images, mnist.test_labels)
    rows = add_noise(images[chosen], settings["snr"], noise_seed), labels[chosen]
    return rows, (add_noise(test_images, settings["snr"], test_seed), test_labels)


def replicate(settings: Settings, seed: int, data: Path | None = None) -> Curves:
    """Train GD and DD with every width on the same rows, from the same start."""
    rows, test = noisy_digits(settings, seed, data)
    theta_seed, head_seed = streams(seed, 5)[3:]
    lr, steps, d = settings["lr"], settings["steps"], rows[0].shape[1]
    curves: Curves = {}
    for width in settings["widths"]:
        theta = default_theta(width, d, theta_seed)
        objective = Objective(TwoLayer(width, seed=head_seed), "logistic")
        for name, algorithm in (
            ("gd", GradientDescent(lr, reduction="mean")),
            ("dd", DecoupledDescent(lr, reduction="mean")),
        ):
            curves |= train(f"L={width}/{name}", rows, test, objective, algorithm, steps, theta)
    return curves


def draw(settings: Settings, curves: Curves) -> Figure:
    """One row per width: gradient descent left, decoupled descent right."""
    title = (
        f"MNIST, zeros against eights: n = {settings['n']}, d = {settings['d']}, "
        f"λ = {settings['snr']:g}, {settings['replications']} runs"
    )
    return error_grid(curves, title, "cross-entropy")


def findings(settings: Settings, panels: list[dict[str, Any]]) -> str:
    """Say what both algorithms reach with every width."""
    sentences = []
    for width, panel in zip(settings["widths"], panels, strict=True):
        best, step = lowest(panel, "dd", "test")
        sentences.append(
            f"L = {width}: gradient descent has train error {last(panel, 'gd', 'train'):.4f} and "
            f"test error {last(panel, 'gd', 'test'):.3f} (mean absolute gap "
            f"{measure(panel, 'gd', 'mean_absolute_gap'):.3f}); decoupled descent "
            f"{last(panel, 'dd', 'train'):.3f} and {last(panel, 'dd', 'test'):.3f} (gap "
            f"{measure(panel, 'dd', 'mean_absolute_gap'):.3f}), with its lowest test error "
            f"{best:.3f} at step {step}, where its train error is "
            f"{curve(panel, 'dd')['train']['median'][step]:.3f}."
        )
    return (
        f"Medians over {settings['replications']} runs after {settings['steps']} steps. "
        + " ".join(sentences)
        + divergences(panels)
    )


MNIST = Experiment(
    name="mnist",
    title="MNIST: zeros against eights",
    label="fig:lossGDvDD",
    settings={
        "n": 800,
        "d": 784,
        "snr": 30.0,
        "widths": [3, 9, 27],
        "lr": 1.0,
        "reduction": "mean",
        "steps": 500,
        "replications": 20,
    },
    quick={"replications": 3},
    replicate=replicate,
    summarise=summarise_errors,
    draw=draw,
    findings=findings,
    prepare=prepare,
)
