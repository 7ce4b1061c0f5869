"""The signal-less figures: the paper's iterations, the theory, and the selection of c."""

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.app.reproduce import signalless
from decoupled_descent.app.reproduce.experiment import streams
from decoupled_descent.app.reproduce.summary import selected
from tests.oracles import descent as oracle

SMALL = {"n": 40, "d": 80, "lr": 0.05, "steps": 15, "test_rows": 60, "replications": 4}
SWEEP = SMALL | {"c": [0.5, 1.0, 6.0]}


def stacked(replicate, settings):
    runs = [replicate(settings, seed) for seed in range(settings["replications"])]
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}


def oracle_path(seed, lr, damping, decoupled):
    (problem,) = signalless.pure(SMALL, seed)
    X, start = problem.rows[0].double().numpy(), problem.theta.double().numpy().T
    return oracle.signalless(X, start, lr, damping, 15, decoupled)


@pytest.mark.parametrize("name", ["gd", "dd"])
def test_the_papers_iteration(name):
    path = oracle_path(3, 0.05, 1.0, name == "dd")
    curves = signalless.SIGNALLESS.replicate(SMALL, 3)
    np.testing.assert_allclose(curves[f"signalless/{name}/train"], path.train_error, rtol=1e-4)
    X_test, _ = dd.mixtures.signalless(80).sample(60, seed=streams(3, 3)[1])
    errors = [np.mean((X_test.double().numpy() @ theta) ** 2) / 2 for theta in path.theta]
    np.testing.assert_allclose(curves[f"signalless/{name}/test"], errors, rtol=1e-4)


@pytest.mark.parametrize("c", [0.5, 6.0])
def test_the_sweeps_iteration(c):
    path = oracle_path(1, c * 0.05, 0.95, True)
    curves = signalless.SWEEP.replicate(SWEEP, 1)
    np.testing.assert_allclose(curves[f"c={c:g}/dd/train"], path.train_error, rtol=1e-4)


def test_theory_starts_from_the_runs_own_overlap():
    (problem,) = signalless.pure(SMALL, 2)
    curves = signalless.SIGNALLESS.replicate(SMALL, 2)
    start = float(problem.theta.double().square().sum()) / 80 / 2
    assert curves["signalless/dd/state_evolution"][0] == pytest.approx(start)


def test_theory_predicts_large_runs():
    """Both errors are means over 2000 rows of ½h²: relative standard error √(2/2000) = 0.032."""
    large = SMALL | {"n": 2000, "d": 2000, "test_rows": 2000}
    curves = signalless.SIGNALLESS.replicate(large, 0)
    theory = curves["signalless/dd/state_evolution"]
    for kind in ("train", "test"):
        np.testing.assert_allclose(curves[f"signalless/dd/{kind}"], theory, rtol=4 * 0.032)


def test_selection_is_run_by_run():
    curves = stacked(signalless.SWEEP.replicate, SWEEP)
    curves["c=1/dd/train"][2, -1] = 0.0
    assert selected(curves, "train") == ["c=0.5", "c=0.5", "c=1", "c=0.5"]
    assert selected(curves, "test") == ["c=0.5"] * 4
    panels = signalless.SWEEP.summarise(curves)
    assert [panel["selected_by_train"] for panel in panels] == [0.75, 0.25, 0]
    text = signalless.SWEEP.findings(SWEEP, panels)
    assert "At the last step the train error selects c = 0.5 in 75\u00a0% of the runs" in text
    assert "the test error selects c = 0.5 in 100\u00a0%" in text
    assert "The test error grows for c ≥ 6." in text


def test_the_selected_panel_is_marked():
    curves = stacked(signalless.SWEEP.replicate, SWEEP)
    figure = signalless.SWEEP.draw(SWEEP, curves)
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == ["c = 0.5: selected in 4 of 4 runs", "c = 1", "c = 6"]
    assert len({ax.get_facecolor() for ax in figure.axes}) == 2
    assert {ax.get_yscale() for ax in figure.axes} == {"log"}


def test_findings_and_figure():
    curves = stacked(signalless.SIGNALLESS.replicate, SMALL)
    text = signalless.SIGNALLESS.findings(SMALL, signalless.SIGNALLESS.summarise(curves))
    ends = [np.median(curves[f"signalless/gd/{kind}"][:, -1]) for kind in ("train", "test")]
    assert (
        "Gradient descent ends with train error {:.3g} and test error {:.3g} (".format(*ends)
        in text
    )
    assert f"gradient descent is {ends[1] / ends[0]:.0f} times its train error" in text
    theory = np.median(curves["signalless/dd/state_evolution"][:, -1])
    assert f"state evolution predicts {theory:.2f}" in text
    figure = signalless.SIGNALLESS.draw(SMALL, curves)
    assert [ax.get_title() for ax in figure.axes] == ["gradient descent", "decoupled descent"]
    assert {ax.get_yscale() for ax in figure.axes} == {"log"}


def test_the_captions_settings():
    for experiment, n in ((signalless.SIGNALLESS, 200), (signalless.SWEEP, 800)):
        wanted = {"n": n, "d": 800, "lr": 0.05, "replications": 100}
        assert {k: experiment.settings[k] for k in wanted} == wanted
