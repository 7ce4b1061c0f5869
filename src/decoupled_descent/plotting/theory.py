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
    r"""Draw the pre-activations of a run for each mode, and their limit for new rows, N(m_j, Ω).

    For methods with a correction the training rows have the same limit. For other methods the limit
    of the training rows is drawn as well.

    Args:
        preactivations: h of the rows at one step, shape (n, L), such as ``info.preactivations`` in
            a callback.
        modes: The mode of each row, as :meth:`GaussianMixture.sample_with_modes` gives it, (n,).
        evolution: The limit of the run.
        step: The step.

    Returns:
        A figure with a row per unit and a column per mode.

    Example:
        >>> import decoupled_descent as dd
        >>> mixture = dd.mixtures.flipped_classes(100, snr=2.0, labels=(0.0, 1.0))
        >>> X, y, modes = mixture.sample_with_modes(200, seed=0)
        >>> objective = dd.Objective(dd.heads.Linear(), "logistic")
        >>> seen, algorithm = [], dd.DecoupledDescent(0.1)
        >>> run = dd.fit(X, y, objective, algorithm, 3, callbacks=[seen.append], seed=0)
        >>> evolution = dd.StateEvolution(mixture, objective, algorithm).run(3)
        >>> h = seen[2].info.preactivations
        >>> figure = plot_preactivations(h, modes, evolution, step=2)
        >>> len(figure.axes)
        2
    """
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
