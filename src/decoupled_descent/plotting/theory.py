"""Figures of runs, compared with their limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from decoupled_descent.plotting.style import COLOURS, THEORY, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from decoupled_descent.theory.evolution import Evolution

#: The number of bins of a histogram.
BINS = 40


def plot_preactivations(
    preactivations: Tensor, modes: Any, evolution: Evolution, step: int
) -> Figure:
    """Draw pre-activations beside their limit; see :meth:`Evolution.plot_preactivations`."""
    h = torch.as_tensor(preactivations, device="cpu").double()
    modes = torch.as_tensor(modes, device="cpu")
    step = range(len(evolution.test_error))[step]
    means, overlap = evolution.alignment[step], evolution.overlap[step]
    width, total = len(overlap), len(means)
    if h.shape != (len(modes), width):
        raise ValueError(
            f"preactivations has shape {tuple(h.shape)}; it must be ({len(modes)}, {width}), one "
            "row for every entry of modes and one column per unit"
        )
    from scipy.stats import norm  # slow to import

    trained, colour = evolution.training_rows(step), COLOURS["train"]
    figure, axes = new_figure(total, width, sharex="row")
    figure.set_size_inches(2.6 * total, 2.0 * width + 0.5)
    for unit in range(width):
        spread = float(overlap[unit, unit].clamp(min=1e-12).sqrt())
        for j in range(total):
            ax = axes[unit, j]
            rows = h[modes == j, unit].numpy()
            ax.hist(rows, BINS, density=True, color=colour, alpha=0.35, label="training rows")
            law = norm(float(means[j, unit]), spread)
            x = law.mean() + spread * np.linspace(-4, 4, 200)
            ax.plot(x, law.pdf(x), **(THEORY | {"label": "limit, new rows"}))
            if trained is not None:
                members = trained.modes == j
                ax.hist(
                    trained.h[members, unit].numpy(), BINS, density=True, histtype="step",
                    weights=trained.weights[members].numpy(), color=colour,
                    label="limit, training rows",
                )  # fmt: skip
            ax.set(title=f"mode {j + 1}" if unit == 0 else "", xlabel=f"pre-activation {unit + 1}")
            tidy(ax)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure
