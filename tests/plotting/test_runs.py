"""Figures of runs, sweeps and learning curves show what they claim to."""

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.checks import Z95
from decoupled_descent.plotting.runs import plot_curve, plot_learning_curve
from decoupled_descent.plotting.style import COLOURS
from decoupled_descent.training import StopReason
from decoupled_descent.training.sweeps import Halving

MIXTURE = dd.mixtures.flipped_classes(40, 3.0, labels=(0, 1))
DATA, TEST = MIXTURE.sample(60, seed=0), MIXTURE.sample(60, seed=1)
OBJECTIVE = dd.Objective(dd.heads.Linear(), "logistic")


def test_run_with_interval_and_best_step():
    run = dd.fit(*DATA, OBJECTIVE, dd.DecoupledDescent(0.2), 30, test=TEST)
    ax = run.plot().axes[0]
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["train error"].get_ydata(), run.train_error)
    np.testing.assert_allclose(lines["test error"].get_ydata(), run.test_error)
    assert lines[f"best step, {run.best_step}"].get_xdata() == run.best_step
    band = ax.collections[0].get_paths()[0].vertices[:, 1]
    assert band.min() == pytest.approx(
        float((run.train_error - 1.959964 * run.train_error_stderr).min())
    )


def test_sweep_marks_the_winner_and_the_pruned():
    algorithms = {f"{lr}": dd.DecoupledDescent(lr, 0.9) for lr in (0.3, 0.2, 0.0, 0.001)}
    result = dd.sweep(*DATA, OBJECTIVE, algorithms, 40, halving=Halving(z=0.5))
    curves, behind = result.plot().axes
    (winner,) = [line for line in curves.lines if line.get_color() == COLOURS["train"]]
    np.testing.assert_allclose(winner.get_ydata(), result.best.train_error)
    crosses = [line for line in curves.lines if line.get_marker() == "x"]
    pruned = [run for run in result.runs if run.stop_reason is StopReason.PRUNED]
    assert len(crosses) == len(pruned) > 0
    shown = [label.get_text() for label in behind.get_yticklabels()]
    assert shown[-1] == result.names[result.best_index]
    assert sorted(shown) == sorted(result.names)


@pytest.mark.parametrize("kind", [list, np.asarray])
def test_curve_with_interval_and_best_step(kind):
    error, stderr = kind([1.0, 0.4, 0.5, 0.7]), kind([0.1, 0.2, 0.1, 0.05])
    figure = plot_curve(error, stderr, title="a model", ylabel="log loss")
    (ax,) = figure.axes
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("a model", "step", "log loss")
    lines = {line.get_label(): line for line in ax.lines}
    np.testing.assert_allclose(lines["train error"].get_xdata(), range(4))
    np.testing.assert_allclose(lines["train error"].get_ydata(), error)
    best = lines["best step, 1"]
    assert (*best.get_xdata(), *best.get_ydata()) == (1, 0.4)
    band = ax.collections[0].get_paths()[0].vertices
    for step in range(4):
        heights = band[band[:, 0] == step, 1]
        assert heights.min() == pytest.approx(error[step] - 1.959964 * stderr[step])
        assert heights.max() == pytest.approx(error[step] + 1.959964 * stderr[step])
    shown = [text.get_text() for text in ax.get_legend().get_texts()]
    assert shown == ["train error", "its 95 % interval", "best step, 1"]


ROWS, ERRORS, STDERRS = [50, 100, 200, 400], [0.5, 0.4, 0.35, 0.33], [0.05, 0.04, 0.03, 0.06]


def test_errors_intervals_and_the_extrapolated_one():
    (ax,) = plot_learning_curve(ROWS, ERRORS, STDERRS, "log loss").axes
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("training rows", "log loss")
    measured, extrapolated = ax.containers
    for bars, part in ((measured, slice(0, 3)), (extrapolated, slice(3, 4))):
        points, _, (lines,) = bars.lines
        np.testing.assert_array_equal(points.get_xdata(), ROWS[part])
        np.testing.assert_array_equal(points.get_ydata(), ERRORS[part])
        ends = np.array([segment[:, 1] for segment in lines.get_segments()])
        half = Z95 * np.array(STDERRS[part])
        np.testing.assert_allclose(ends.T, [ERRORS[part] - half, ERRORS[part] + half])
    assert extrapolated.lines[0].get_markerfacecolor() == "white"
    assert measured.lines[0].get_markerfacecolor() != "white"


def test_every_size_has_a_tick_with_its_number():
    (ax,) = plot_learning_curve(ROWS, ERRORS, STDERRS).axes
    assert ax.get_xscale() == "log"
    assert ax.get_xticks().tolist() == pytest.approx(ROWS)
    assert [label.get_text() for label in ax.get_xticklabels()] == list(map(str, ROWS))
    said = [text.get_text() for text in ax.get_legend().get_texts()]
    assert said == ["estimated, with its 95 % interval", "extrapolated"]
