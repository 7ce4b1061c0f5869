"""Figures of runs and sweeps in one style. Matplotlib is imported when something is drawn."""

from decoupled_descent.plotting.runs import plot_curve, plot_run, plot_sweep
from decoupled_descent.plotting.style import COLOURS, THEORY, new_figure, save_figure
from decoupled_descent.plotting.theory import plot_preactivations

__all__ = [
    "COLOURS",
    "THEORY",
    "new_figure",
    "plot_curve",
    "plot_preactivations",
    "plot_run",
    "plot_sweep",
    "save_figure",
]
