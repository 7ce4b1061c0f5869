r"""XOR classification: gradient descent beside decoupled descent, and a choice of damping.

Four modes ±[v, v] (label 0) and ±[v, −v] (label 1), every entry of v being λ; the model is
σ(a (xᵀθ¹)(xᵀθ²)) under cross-entropy; θ_1 and a_1 have independent N(0, 1) entries.
"""

from __future__ import annotations

from typing import Any

import torch
from matplotlib.figure import Figure

from decoupled_descent.datasets import mixtures
from decoupled_descent.descent import DecoupledDescent, GradientDescent
from decoupled_descent.objective import Objective
from decoupled_descent.objective.heads import Product
from decoupled_descent.reproduce.drawing import error_grid
from decoupled_descent.reproduce.experiment import (
    Curves,
    Experiment,
    Settings,
    predict,
    streams,
    train,
)
from decoupled_descent.reproduce.summary import (
    divergences,
    last,
    lowest,
    measure,
    summarise_errors,
)

LOSS = "cross-entropy"


def normal_theta(dimension: int, seed: int) -> torch.Tensor:
    """θ_1 with independent N(0, 1) entries, shape (2, d)."""
    return torch.randn(2, dimension, generator=torch.Generator().manual_seed(seed))


def replicate(settings: Settings, seed: int) -> Curves:
    """Train GD and DD on one data set per signal-to-noise ratio, from the same start."""
    n, d, lr, steps = (settings[name] for name in ("n", "d", "lr", "steps"))
    rows_seed, test_seed, theta_seed, head_seed = streams(seed, 4)
    curves: Curves = {}
    for snr in settings["snr"]:
        mixture, panel = mixtures.xor(d, snr), f"snr={snr:g}"
        rows = mixture.sample(n, seed=rows_seed)
        test = mixture.sample(settings["test_rows"], seed=test_seed)
        theta = normal_theta(d, theta_seed)
        objective = Objective(Product(seed=head_seed), "logistic")
        decoupled = DecoupledDescent(lr)
        for name, algorithm in (("gd", GradientDescent(lr)), ("dd", decoupled)):
            curves |= train(f"{panel}/{name}", rows, test, objective, algorithm, steps, theta)
        curves[f"{panel}/dd/state_evolution"] = predict(
            mixture, objective, decoupled, n / d, steps, theta
        )
    return curves


def draw(settings: Settings, curves: Curves) -> Figure:
    """One row per signal-to-noise ratio: gradient descent left, decoupled descent right."""
    headings = {f"snr={snr:g}": f"λ = {snr:g}" for snr in settings["snr"]}
    return error_grid(curves, _title("XOR", settings), LOSS, headings)


def findings(settings: Settings, panels: list[dict[str, Any]]) -> str:
    """Say how the errors compare at every signal-to-noise ratio."""
    sentences = []
    for snr, panel in zip(settings["snr"], panels, strict=True):
        train_gd, test_gd = last(panel, "gd", "train"), last(panel, "gd", "test")
        train_dd, test_dd = last(panel, "dd", "train"), last(panel, "dd", "test")
        sentences.append(
            f"At λ = {snr:g} gradient descent ends with train error {train_gd:.3g} and test error "
            f"{test_gd:.3g}; decoupled descent with {train_dd:.3g} and {test_dd:.3g}. The mean "
            f"absolute gap is {measure(panel, 'gd', 'mean_absolute_gap'):.3f} against "
            f"{measure(panel, 'dd', 'mean_absolute_gap'):.3f}, and state evolution is within "
            f"{measure(panel, 'dd', 'distance_to_theory'):.3f} of decoupled descent's median test "
            "error on average."
        )
    return (
        f"Medians over {settings['replications']} runs after {settings['steps']} steps. "
        + " ".join(sentences)
        + divergences(panels)
    )


def replicate_damping(settings: Settings, seed: int) -> Curves:
    """Train DD with every damping on the same data, from the same start, with a = 1 fixed."""
    n, d, steps = (settings[name] for name in ("n", "d", "steps"))
    rows_seed, test_seed, theta_seed = streams(seed, 3)
    mixture = mixtures.xor(d, settings["snr"])
    rows = mixture.sample(n, seed=rows_seed)
    test = mixture.sample(settings["test_rows"], seed=test_seed)
    theta, objective = normal_theta(d, theta_seed), Objective(Product(a=1.0), "logistic")
    curves: Curves = {}
    for damping in settings["damping"]:
        panel = f"damping={damping:g}/dd"
        algorithm = DecoupledDescent(settings["lr"], damping=damping, head_lr=0)
        curves |= train(panel, rows, test, objective, algorithm, steps, theta)
        curves[f"{panel}/state_evolution"] = predict(
            mixture, objective, algorithm, n / d, steps, theta
        )
    return curves


def draw_damping(settings: Settings, curves: Curves) -> Figure:
    """One panel per damping, side by side."""
    title = f"{_title('XOR with damping', settings)}, λ = {settings['snr']:g}"
    headings = {f"damping={damping:g}": f"η₀ = {damping:g}" for damping in settings["damping"]}
    return error_grid(curves, title, LOSS, headings, columns=3, log=True)


def findings_damping(settings: Settings, panels: list[dict[str, Any]]) -> str:
    """Say what every damping reaches, and which one the train error selects."""
    sentences = []
    for damping, panel in zip(settings["damping"], panels, strict=True):
        best, step = lowest(panel, "dd", "test")
        sentences.append(
            f"η₀ = {damping:g} ends with train error {last(panel, 'dd', 'train'):.3f} and test "
            f"error {last(panel, 'dd', 'test'):.3f} (lowest {best:.3f}, at step {step}; mean "
            f"absolute gap {measure(panel, 'dd', 'mean_absolute_gap'):.3f})."
        )
    chosen = {
        kind: min(range(len(panels)), key=lambda k: last(panels[k], "dd", kind))
        for kind in ("train", "test")
    }
    by_train, by_test = (settings["damping"][chosen[kind]] for kind in ("train", "test"))
    agreement = (
        f"the train error selects η₀ = {by_train:g}, and so does the test error"
        if by_train == by_test
        else f"the train error selects η₀ = {by_train:g}, the test error η₀ = {by_test:g}"
    )
    return (
        f"Medians over {settings['replications']} runs on shared data after {settings['steps']} "
        f"steps. {' '.join(sentences)} At the last step {agreement}." + divergences(panels)
    )


def _title(what: str, settings: Settings) -> str:
    return (
        f"{what}: n = {settings['n']}, d = {settings['d']}, η = {settings['lr']:g}, "
        f"{settings['replications']} runs"
    )


XOR = Experiment(
    name="xor",
    title="XOR classification",
    label="fig:XorClassification",
    settings={
        "n": 1000,
        "d": 1000,
        "lr": 0.05,
        "snr": [1.0, 4.0, 8.0],
        "steps": 200,
        "test_rows": 2000,
        "replications": 20,
    },
    quick={"replications": 4},
    replicate=replicate,
    summarise=summarise_errors,
    draw=draw,
    findings=findings,
)

DAMPING = Experiment(
    name="xor-damping",
    title="XOR: a damping chosen by the train error",
    label="fig:etaZeroSweep",
    settings={
        "n": 1000,
        "d": 1000,
        "lr": 0.05,
        "snr": 4.0,
        "damping": [1.0, 0.9, 0.8],
        "steps": 100,
        "test_rows": 2000,
        "replications": 50,
    },
    quick={"replications": 4},
    replicate=replicate_damping,
    summarise=summarise_errors,
    draw=draw_damping,
    findings=findings_damping,
)
