"""Figures of runs, compared with their limit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from decoupled_descent.plotting.style import COLOURS, THEORY, new_figure, tidy

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from torch import Tensor

    from decoupled_descent.state_evolution.evolution import Evolution

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
    trained = evolution.training_rows(step)
    figure, axes = new_figure(total, width, sharex="row")
    figure.set_size_inches(2.6 * total, 2.0 * width + 0.5)
    for unit in range(width):
        spread = float(overlap[unit, unit].clamp(min=1e-12).sqrt())
        for j in range(total):
            ax = axes[unit, j]
            _draw_rows(ax, h[modes == j, unit])
            _draw_limit(ax, float(means[j, unit]), spread)
            if trained is not None:
                members = trained.modes == j
                _draw_trained(ax, trained.h[members, unit], trained.weights[members])
            ax.set(title=f"mode {j + 1}" if unit == 0 else "", xlabel=f"pre-activation {unit + 1}")
            tidy(ax)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, loc="outside lower center", ncols=3, frameon=False, fontsize="small")
    return figure


def _draw_rows(ax: Axes, values: Tensor) -> None:
    """A histogram of the pre-activations of the training rows."""
    shown: dict[str, Any] = {"color": COLOURS["train"], "alpha": 0.35, "label": "training rows"}
    ax.hist(values.numpy(), BINS, density=True, **shown)


def _draw_limit(ax: Axes, centre: float, spread: float) -> None:
    """The Gaussian limit for new rows."""
    x = np.linspace(centre - 4 * spread, centre + 4 * spread, 200)
    density = np.exp(-(((x - centre) / spread) ** 2) / 2) / (spread * np.sqrt(2 * np.pi))
    ax.plot(x, density, **(THEORY | {"label": "limit, new rows"}))


def _draw_trained(ax: Axes, h: Tensor, weights: Tensor) -> None:
    """The limit for training rows, from weighted samples."""
    ax.hist(
        h.numpy(), BINS, density=True, weights=weights.numpy(), histtype="step",
        color=COLOURS["train"], label="limit, training rows",
    )  # fmt: skip
