"""The XOR figures: the paper's iterations, seeds, and their findings."""

import re
from dataclasses import replace

import numpy as np
import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.app.reproduce import xor
from decoupled_descent.app.reproduce.experiment import normal_theta, streams
from decoupled_descent.app.reproduce.summary import last, measure
from decoupled_descent.checks import percent
from tests.oracles import descent as oracle

SMALL = {"n": 60, "d": 50, "lr": 0.05, "steps": 12, "test_rows": 80}
PURE = SMALL | {"snr": [1.0, 6.0], "replications": 3}
DAMPED = SMALL | {"snr": 4.0, "damping": [1.0, 0.8], "replications": 3}

WHOLE = percent(1.0, decimals=0)


def stacked(replicate, settings):
    runs = [replicate(settings, seed) for seed in range(settings["replications"])]
    return {name: np.stack([run[name] for run in runs]) for name in runs[0]}


def problem(snr, seed):
    """The data and the start of one replication, in double precision for the oracle."""
    rows_seed, test_seed, theta_seed, head_seed = streams(seed, 4)
    mixture = dd.mixtures.xor(50, snr)
    (X, y), test = mixture.sample(60, seed=rows_seed), mixture.sample(80, seed=test_seed)
    theta = normal_theta(2, 50, theta_seed)
    a = dd.heads.Product(seed=head_seed).a.item()
    return [v.double().numpy() for v in (X, y, *test)], theta.double().numpy().T, a


def test_errors_at(path, X, y):
    """Test errors of the oracle's iterates: plain xθ, without memory."""
    errors = []
    for theta, head in zip(path.theta, path.head, strict=True):
        h = X @ theta
        margins = head["a"] * h[:, 0] * h[:, 1]
        errors.append(np.mean(np.logaddexp(0, margins) - y * margins))
    return errors


test_errors_at.__test__ = False


@pytest.mark.parametrize("name", ["gd", "dd"])
@pytest.mark.parametrize("snr", [1.0, 6.0])
def test_the_papers_iteration(name, snr):
    (X, y, X_test, y_test), theta, a = problem(snr, seed=3)
    path = oracle.xor(X, y, theta, a, 0.05, 12, decoupled=name == "dd")
    curves = xor.XOR.replicate(PURE, 3)
    found = {kind: curves[f"snr={snr:g}/{name}/{kind}"] for kind in ("train", "test")}
    np.testing.assert_allclose(found["train"], path.train_error, rtol=1e-4)
    np.testing.assert_allclose(found["test"], test_errors_at(path, X_test, y_test), rtol=1e-4)


@pytest.mark.parametrize("damping", [1.0, 0.8])
def test_the_damped_iteration_with_a_fixed(damping):
    (X, y, X_test, y_test), theta, _ = problem(4.0, seed=2)
    path = oracle.xor(X, y, theta, 1.0, 0.05, 12, damping=damping, fixed_a=True)
    curves = xor.DAMPING.replicate(DAMPED, 2)
    panel = f"damping={damping:g}/dd"
    np.testing.assert_allclose(curves[f"{panel}/train"], path.train_error, rtol=1e-4)
    expected = test_errors_at(path, X_test, y_test)
    np.testing.assert_allclose(curves[f"{panel}/test"], expected, rtol=1e-4)


def test_theory_starts_where_the_run_starts():
    curves = xor.XOR.replicate(PURE | {"n": 2000, "d": 1000, "test_rows": 4000, "steps": 3}, 0)
    for snr in ("1", "6"):
        test, theory = (curves[f"snr={snr}/dd/{kind}"] for kind in ("test", "state_evolution"))
        np.testing.assert_allclose(test, theory, rtol=0.1)


def test_both_algorithms_start_from_the_same_point():
    curves = xor.XOR.replicate(PURE, 1)
    for kind in ("train", "test"):
        assert curves[f"snr=1/gd/{kind}"][0] == curves[f"snr=1/dd/{kind}"][0]
        assert curves[f"snr=1/gd/{kind}"][-1] != curves[f"snr=1/dd/{kind}"][-1]


def test_seeds():
    first, again, other = (xor.XOR.replicate(PURE, seed)["snr=6/dd/train"] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)


def test_the_torch_generator_is_left_alone():
    before = torch.get_rng_state()
    xor.XOR.replicate(PURE, 0)
    xor.DAMPING.replicate(DAMPED, 0)
    assert torch.equal(torch.get_rng_state(), before)


def test_findings_quote_the_medians():
    curves = stacked(xor.XOR.replicate, PURE)
    panels = xor.XOR.summarise(curves)
    text = xor.XOR.findings(PURE, panels)
    for snr in ("1", "6"):
        for name, words in (("gd", "gradient"), ("dd", "decoupled")):
            train, test = (curves[f"snr={snr}/{name}/{kind}"] for kind in ("train", "test"))
            medians = np.median(test, axis=0)
            numbers = [np.median(train[:, -1]), medians[-1], medians.min()]
            sentence = re.search(rf"λ = {snr}: .*?average\)\.", text).group()
            part = sentence.split(f"{words} descent ends with ")[1].split(";")
            found = re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", part[0] + part[1])
            gap = np.median(abs(train - test), axis=0).mean()
            assert found[:3] == [f"{number:.3g}" for number in numbers]
            assert found[3:] == [str(medians.argmin()), f"{gap:.3g}"]
    assert "over 3 runs after 12 steps" in text


def test_findings_name_the_damping_that_the_train_error_selects():
    curves = stacked(xor.DAMPING.replicate, DAMPED)
    for worse, better in ((0.8, "1"), (1.0, "0.8")):
        changed = dict(curves)
        for kind in ("train", "test"):
            name = f"damping={worse:g}/dd/{kind}"
            changed[name] = curves[name] + 10
        text = xor.DAMPING.findings(DAMPED, xor.DAMPING.summarise(changed))
        for kind in ("train", "test"):
            assert f"the {kind} error selects η₀ = {better} in {WHOLE} of the runs" in text
    changed["damping=1/dd/train"] = curves["damping=1/dd/train"] - 10
    text = xor.DAMPING.findings(DAMPED, xor.DAMPING.summarise(changed))
    assert (
        f"the train error selects η₀ = 1 in {WHOLE} of the runs, and the test error selects" in text
    )
    assert f"the test error selects η₀ = 0.8 in {WHOLE} of the runs" in text


def test_figures():
    figure = xor.XOR.draw(PURE, stacked(xor.XOR.replicate, PURE))
    titles = [ax.get_title() for ax in figure.axes]
    assert titles == [
        f"λ = {snr}: {name}"
        for snr in ("1", "6")
        for name in ("gradient descent", "decoupled descent")
    ]
    figure = xor.DAMPING.draw(DAMPED, stacked(xor.DAMPING.replicate, DAMPED))
    assert [ax.get_title() for ax in figure.axes] == ["η₀ = 1", "η₀ = 0.8"]


def test_the_captions_settings():
    """Captions win where the text disagrees: 50 runs of the damping figure, not 20."""
    settings = xor.XOR.settings
    assert {k: settings[k] for k in ("n", "d", "lr", "snr", "replications")} == {
        "n": 1000,
        "d": 1000,
        "lr": 0.05,
        "snr": [1, 4, 8],
        "replications": 20,
    }
    assert xor.DAMPING.settings["replications"] == 50
    assert xor.DAMPING.settings["damping"] == [1, 0.9, 0.8]


def test_the_title_says_how_much_was_computed():
    title = xor.XOR.draw(PURE, stacked(xor.XOR.replicate, PURE)).get_suptitle()
    assert title == "XOR: n = 60, d = 50, η = 0.05, 3 runs"


@pytest.mark.slow
def test_the_quick_figure_shows_what_the_paper_does():
    """At λ = 8 decoupled descent has the smaller gap and the smaller test error."""
    settings = xor.XOR.settings | xor.XOR.quick | {"snr": [8.0]}

    def without_theory(settings, seed):  # which is slow
        return [problem._replace(mixture=None) for problem in xor.problems(settings, seed)]

    experiment = replace(xor.XOR, problems=without_theory)
    (panel,) = experiment.summarise(stacked(experiment.replicate, settings))
    assert measure(panel, "dd") < 0.6 * measure(panel, "gd")
    assert last(panel, "dd", "test") < last(panel, "gd", "test")
