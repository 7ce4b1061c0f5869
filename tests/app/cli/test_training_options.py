"""The options of ``decoupled train``: which go together, and what they become."""

import pytest

from decoupled_descent.app.cli.training_options import (
    check_options,
    resolve_method,
)
from decoupled_descent.training.sweeps.methods import METHODS


@pytest.mark.parametrize("name", METHODS)
def test_every_method_and_its_settings(run, name):
    words = " ".join(run("train", "--help")[1].replace("│", " ").split())
    assert f"{name}: {METHODS[name].summary}." in words
    for setting in ("lr", "damping", "ridge"):
        numbers = dict.fromkeys(("lr", "damping", "ridge"), "auto") | {setting: "0.5"}
        if setting in METHODS[name].settings:
            assert check_options("auto", name, numbers)[setting] == 0.5
        else:
            with pytest.raises(ValueError, match=f"--{setting} has no effect with --method {name}"):
                check_options("auto", name, numbers)


def test_options_of_networks_choose_a_descent():
    assert resolve_method("auto", network=False) == "newton"
    assert resolve_method("auto", network=True) == "orthogonal"
    assert resolve_method("gradient", network=False) == "gradient"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (("--time-limit", "0"), "--time-limit 0 must be a positive number of seconds"),
        (("--time-limit", "-2"), "--time-limit -2 must be a positive number of seconds"),
        (("--time-limit", "nan"), "--time-limit nan must be a positive number of seconds"),
        (("--time-limit", "soon"), "'--time-limit': Input should be a valid number"),
        (("--time-limit", "5", "--hidden", "3"), "--time-limit needs --method newton"),
    ],
)
def test_time_limits_that_are_refused(run, shop, tmp_path, given, words):
    status, _, err = run("train", shop, "--target", "answer", "--out", tmp_path / "o", *given)
    assert status == 2
    assert words in " ".join(err.replace("│", " ").split())


@pytest.mark.parametrize("name", METHODS)
def test_options_of_newton_alone(name):
    given, numbers = {"--group": False, "--log-target": True}, {"ridge": "auto"}
    assert check_options("auto", name, numbers, {"--group": False})["method"] == name
    if name == "newton":
        assert check_options("auto", name, numbers, given)["method"] == name
    else:
        with pytest.raises(ValueError, match=f"--log-target needs --method newton, not {name}"):
            check_options("auto", name, numbers, given)
