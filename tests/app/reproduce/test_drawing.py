"""The grid of error panels: order, axes, predictions, and runs that diverged."""

import numpy as np
import pytest

from decoupled_descent.app.reproduce.drawing import error_grid
from decoupled_descent.plotting import style as plotting


def curves(panels=("a", "b"), algorithms=("gd", "dd"), theory=True):
    rng = np.random.default_rng(0)
    found = {}
    for panel in panels:
        for algorithm in algorithms:
            for kind in ("train", "test"):
                found[f"{panel}/{algorithm}/{kind}"] = rng.random((8, 9)) + 1
            if theory and algorithm == "dd":
                found[f"{panel}/{algorithm}/state_evolution"] = rng.random((8, 9)) + 1
    return found


def test_rows_are_panels_and_columns_algorithms():
    data = curves()
    figure = error_grid(data, "title", "loss")
    assert [ax.get_title() for ax in figure.axes] == [
        "a: gradient descent",
        "a: decoupled descent",
        "b: gradient descent",
        "b: decoupled descent",
    ]
    assert figure.get_suptitle() == "title"
    for ax, name in zip(figure.axes, ("a/gd", "a/dd", "b/gd", "b/dd"), strict=True):
        medians = [line for line in ax.lines if line.get_linewidth() == 1.8]
        drawn = {line.get_color(): line.get_ydata() for line in medians}
        for kind, colour in plotting.COLOURS.items():
            np.testing.assert_allclose(drawn[colour], np.median(data[f"{name}/{kind}"], axis=0))
        dashed = [line for line in ax.lines if line.get_label() == "state evolution"]
        assert len(dashed) == name.endswith("dd")
        for line in dashed:
            expected = np.median(data[f"{name}/state_evolution"], axis=0)
            np.testing.assert_allclose(line.get_ydata(), expected)


def test_one_algorithm_fills_rows():
    figure = error_grid(curves("abcde", ("dd",)), "", "loss", columns=3)
    assert [ax.get_title() for ax in figure.axes] == [*"abcde"]
    assert figure.axes[0].get_subplotspec().get_gridspec().get_geometry() == (2, 3)


@pytest.mark.parametrize("theory", [True, False])
def test_the_legend_is_the_figures(theory):
    figure = error_grid(curves(theory=theory), "", "loss")
    assert all(ax.get_legend() is None for ax in figure.axes)
    (legend,) = figure.legends
    words = [text.get_text() for text in legend.get_texts()]
    assert words[:2] == ["train error (median)", "test error (median)"]
    assert ("state evolution" in words) == theory


def test_explosions_get_a_logarithmic_axis_in_their_row_only():
    data = curves()
    data["b/dd/test"][:3, 5:] = 30
    figure = error_grid(data, "", "loss")
    assert [ax.get_yscale() for ax in figure.axes] == ["linear", "linear", "log", "log"]
    assert figure.axes[3].get_ylim()[1] > 30
    assert not any(len(ax.texts) for ax in figure.axes)


def test_extremes_do_not_squash_a_linear_axis():
    """Two of eight runs far above the quartiles are cut off, and the panel says so."""
    data = curves()
    data["b/dd/train"][:2, 5] = 9
    data["b/dd/test"][1, 5] = 8
    figure = error_grid(data, "", "loss")
    quartile = max(
        np.quantile(values, 0.75, axis=0).max()
        for name, values in data.items()
        if name.startswith("b/") and not name.endswith("state_evolution")
    )
    assert quartile < figure.axes[3].get_ylim()[1] <= 1.5 * quartile
    notes = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert notes == [[], [], [], ["off the panel: 2 of 8 runs"]]


def test_a_short_spike_of_most_runs_does_not_rule_the_axis():
    data = {
        f"a/dd/{kind}": np.linspace(1, 0.1, 100) * np.ones((8, 1)) for kind in ("train", "test")
    }
    data["a/dd/train"][:6, 40:42] = 1e3
    figure = error_grid(data, "", "loss")
    assert figure.axes[0].get_ylim()[1] == pytest.approx(1.5)
    assert [text.get_text() for text in figure.axes[0].texts] == ["off the panel: 6 of 8 runs"]


def test_a_fast_decay_is_shown_from_its_start():
    fast = np.where(np.arange(200) < 3, 2.0, 0.01) * np.ones((8, 1))
    figure = error_grid({"a/dd/train": fast, "a/dd/test": fast}, "", "loss")
    assert figure.axes[0].get_ylim()[1] > 2


def test_logarithmic_axes_have_no_minor_ticks():
    figure = error_grid(curves("abc", ("dd",)), "", "loss", columns=3, log=True)
    figure.canvas.draw()
    for ax in figure.axes:
        assert ax.get_yscale() == "log"
        assert len(ax.yaxis.get_minorticklocs()) == 0
        assert len(ax.yaxis.get_majorticklocs()) > 0


def test_a_run_far_above_all_others_does_not_rule_the_axis():
    data = curves()
    data["b/dd/test"][0, 5] = 1e9
    data["b/dd/train"][0, 6:] = np.inf
    figure = error_grid(data, "", "loss")
    assert {ax.get_yscale() for ax in figure.axes} == {"linear"}
    assert all(ax.get_ylim()[1] < 5 for ax in figure.axes)
    notes = [[text.get_text() for text in ax.texts] for ax in figure.axes]
    assert notes == [[], [], [], ["off the panel: 1 of 8 runs"]]


def test_diverged_runs_are_drawn_as_far_as_they_go():
    data = curves(("a",), ("dd",))
    data["a/dd/train"][:1, 6:] = np.inf
    data["a/dd/test"][:, 7:] = np.inf
    data["a/dd/state_evolution"][:5, 8] = np.inf
    figure = error_grid(data, "", "loss")
    figure.canvas.draw()
    (ax,) = figure.axes
    train, test = (
        next(line.get_ydata() for line in ax.lines if line.get_color() == plotting.COLOURS[kind])
        for kind in ("train", "test")
    )
    assert np.isfinite(train).all()
    assert np.isfinite(test).tolist() == [True] * 7 + [False] * 2
    assert ax.get_ylim()[1] < 5


def test_nothing_is_clipped_or_overlaps():
    """Titles, labels and the legend lie inside the figure, and titles beside each other."""
    figure = error_grid(
        curves("abc"), "a title of some length: n = 1000, d = 1000", "cross-entropy"
    )
    figure.canvas.draw()
    whole = figure.bbox
    boxes = [ax.title.get_window_extent() for ax in figure.axes]
    texts = [*boxes, figure.legends[0].get_window_extent(), figure._suptitle.get_window_extent()]
    texts += [ax.yaxis.label.get_window_extent() for ax in figure.axes[::2]]
    for box in texts:
        assert whole.x0 <= box.x0
        assert whole.y0 <= box.y0
        assert box.x1 <= whole.x1
        assert box.y1 <= whole.y1
    for left, right in zip(boxes[::2], boxes[1::2], strict=True):
        assert left.x1 < right.x0
    assert figure.legends[0].get_window_extent().y1 < min(
        ax.xaxis.label.get_window_extent().y0 for ax in figure.axes[-2:]
    )
