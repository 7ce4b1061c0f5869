"""Figures in one style. Matplotlib is imported when something is drawn.

Runs, sweeps and evolutions draw themselves: ``run.plot()``, ``sweep.plot()``,
``evolution.plot_preactivations(…)``. :func:`save_figure` writes a figure to a file.
"""

from decoupled_descent.plotting.runs import plot_curve
from decoupled_descent.plotting.style import new_figure, save_figure

__all__ = ["new_figure", "plot_curve", "save_figure"]
