"""Figures: what is drawn, in which colours, and files that are whole or not there."""

import numpy as np
import pytest
from matplotlib.colors import to_hex

from decoupled_descent.plotting import style as plotting
from tests.problems import normal

CURVES = normal(5, 12).abs()


def lines(ax, colour):
    return [line for line in ax.lines if to_hex(line.get_color()) == colour.lower()]


def test_band_has_median_quartiles_and_extremes():
    _, axes = plotting.new_figure()
    ax = axes[0, 0]
    plotting.error_band(ax, CURVES, "train")
    median, low, high = (line.get_ydata() for line in lines(ax, plotting.COLOURS["train"]))
    values = CURVES.numpy()
    np.testing.assert_allclose(median, np.sort(values, 0)[2])
    np.testing.assert_allclose(low, values.min(0))
    np.testing.assert_allclose(high, values.max(0))
    assert [line.get_linestyle() for line in ax.lines] == ["-", ":", ":"]
    (band,) = ax.collections
    corners = band.get_paths()[0].vertices
    for step, quartiles in enumerate(np.sort(values, 0)[[1, 3]].T):
        at_step = corners[corners[:, 0] == step, 1]
        assert all(np.isclose(at_step, q).any() for q in quartiles)


def test_one_run_has_no_band():
    _, axes = plotting.new_figure()
    plotting.error_panel(axes[0, 0], CURVES[0], title="DD", loss="logistic")
    ax = axes[0, 0]
    assert len(ax.lines) == 1
    assert not ax.collections
    assert (ax.get_title(), ax.get_xlabel(), ax.get_ylabel()) == ("DD", "step", "logistic")


def test_train_is_blue_and_test_is_orange():
    _, axes = plotting.new_figure(columns=2, rows=3)
    assert axes.shape == (3, 2)
    plotting.error_panel(axes[2, 1], CURVES, CURVES + 1)
    for kind in ("train", "test"):
        drawn = lines(axes[2, 1], plotting.COLOURS[kind])
        assert drawn[0].get_label() == f"{kind} error"
        assert len(drawn) == 3
    legend = {text.get_text() for text in axes[2, 1].get_legend().get_texts()}
    assert legend == {"train error", "test error"}


def test_saved_in_every_format(tmp_path):
    figure, axes = plotting.new_figure()
    plotting.error_panel(axes[0, 0], CURVES)
    files = plotting.save_figure(figure, tmp_path / "errors.png", ("png", "svg"))
    assert [file.name for file in files] == ["errors.png", "errors.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in files[1].read_bytes()
    assert sorted(tmp_path.iterdir()) == sorted(files)


def test_nothing_is_left_of_a_figure_that_could_not_be_saved(tmp_path, monkeypatch):
    figure, _ = plotting.new_figure()
    target = tmp_path / "errors.png"
    target.write_bytes(b"the old one")

    def fail(path, **options):
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(figure, "savefig", fail)
    with pytest.raises(OSError, match="disk full"):
        plotting.save_figure(figure, target)
    assert list(tmp_path.iterdir()) == [target]
    assert target.read_bytes() == b"the old one"


@pytest.mark.parametrize("count", [1, 2, 5, 8])
def test_quantiles_of_finite_values_are_numpys(count):
    values, levels = normal(count, 7).numpy(), [0.0, 0.25, 0.5, 0.9, 1.0]
    expected = np.quantile(values, levels, axis=0)
    np.testing.assert_allclose(plotting.quantiles(values, levels), expected, atol=1e-12)


def test_quantiles_with_infinities():
    found = plotting.quantiles([1.0, np.inf, 3.0, np.inf], [0, 1 / 3, 0.5, 1])
    assert found.tolist() == [1, 3, np.inf, np.inf]


def test_band_of_runs_of_which_one_diverged():
    _, axes = plotting.new_figure()
    curves = CURVES.clone()
    curves[0, 6:] = np.inf
    plotting.error_band(axes[0, 0], curves, "test")
    median, low, high = (line.get_ydata() for line in axes[0, 0].lines)
    assert np.isfinite(median).all()
    assert np.isfinite(low).all()
    assert np.isfinite(high).tolist() == [True] * 6 + [False] * 6


def test_theory_and_a_legend_for_all_panels():
    figure, axes = plotting.new_figure(columns=2)
    for ax in axes[0]:
        plotting.error_panel(ax, CURVES, CURVES + 1, theory=CURVES[0], legend=False)
        assert ax.get_legend() is None
        dashed = next(line for line in ax.lines if line.get_label() == "state evolution")
        np.testing.assert_allclose(dashed.get_ydata(), CURVES[0])
    plotting.figure_legend(figure, theory=True)
    words = [text.get_text() for text in figure.legends[0].get_texts()]
    assert words == [
        "train error (median)",
        "test error (median)",
        "quartiles",
        "extremes",
        "state evolution",
    ]


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_the_common_legend_fits_the_figure(columns):
    figure, _ = plotting.new_figure(columns)
    plotting.figure_legend(figure, theory=True)
    figure.canvas.draw()
    box = figure.legends[0].get_window_extent()
    assert figure.bbox.x0 <= box.x0
    assert box.x1 <= figure.bbox.x1


def log_ticks(low, high):
    figure, axes = plotting.new_figure()
    ax = axes[0, 0]
    ax.set_yscale("log")
    ax.set_ylim(low, high)
    plotting.plain_log_ticks(ax.yaxis)
    figure.canvas.draw()
    labels = zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    return [label.get_text() for tick, label in labels if low <= tick <= high], ax


def test_ticks_of_a_short_logarithmic_axis_are_plain_numbers():
    labels, ax = log_ticks(0.25, 11)
    assert labels == ["0.5", "1", "2", "5", "10"]
    assert len(ax.yaxis.get_minorticklocs()) == 0


def test_ticks_of_a_long_logarithmic_axis_are_powers_of_ten():
    labels, ax = log_ticks(2e-5, 3.0)
    assert len(labels) == 5
    assert all("10^" in label for label in labels)
    assert len(ax.yaxis.get_minorticklocs()) == 0
