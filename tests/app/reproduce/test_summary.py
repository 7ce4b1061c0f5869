"""Summaries: quantiles, gaps, what diverged, and files that are whole."""

import json

import numpy as np
import pytest

from decoupled_descent.app.reproduce import summary

TRAIN, TEST = np.random.default_rng(0).random((2, 5, 7))


def test_quantiles_over_the_replications():
    found = summary.quantiles(TRAIN)
    ordered = np.sort(TRAIN, axis=0)
    for name, rank in (("min", 0), ("q25", 1), ("median", 2), ("q75", 3), ("max", 4)):
        np.testing.assert_array_equal(found[name], ordered[rank])


def test_quantiles_of_single_numbers():
    assert summary.quantiles([3.0, 1.0, 2.0]) == {
        "median": 2.0,
        "q25": 1.5,
        "q75": 2.5,
        "min": 1.0,
        "max": 3.0,
    }


def test_infinite_errors_become_null():
    found = summary.quantiles([[1.0, np.inf], [2.0, np.inf], [3.0, 5.0]])
    assert (found["median"], found["min"]) == ([2.0, None], [1.0, 5.0])
    assert json.loads(json.dumps(found, allow_nan=False)) == found


def test_gap():
    medians = [sorted(abs(TRAIN[:, t] - TEST[:, t]))[2] for t in range(7)]
    assert summary.gap(TRAIN, TEST) == pytest.approx(sum(medians) / 7)
    assert summary.gap([[np.inf]], [[np.inf]]) is None


def test_one_exploding_run_does_not_rule_the_gap():
    train = TRAIN.copy()
    train[0, 3:] = [1e30, np.inf, np.inf, np.inf]
    assert summary.gap(train, TEST) < 1


def test_steps_at_which_most_runs_have_diverged_are_left_out():
    train = TRAIN.copy()
    train[:3, 5:] = np.inf
    assert summary.gap(train, TEST) == pytest.approx(summary.gap(TRAIN[:, :5], TEST[:, :5]))


def test_panels():
    curves = {
        "a/gd/train": TRAIN,
        "a/gd/test": TEST,
        "a/dd/train": TEST,
        "a/dd/test": np.where(TRAIN > 0.9, np.inf, TRAIN),
        "a/dd/state_evolution": TRAIN + 1,
        "b/gd/train": np.where(np.arange(7) < 5, TRAIN, np.inf),
        "b/gd/test": TEST,
    }
    first, second = summary.summarise_errors(curves)
    assert (first["name"], second["name"]) == ("a", "b")
    assert [curve["algorithm"] for curve in first["curves"]] == ["gd", "dd"]
    gradient, decoupled = first["curves"]
    assert gradient["state_evolution"] == []
    assert gradient["train"]["median"] == np.median(TRAIN, axis=0).tolist()
    assert decoupled["state_evolution"] == np.median(TRAIN + 1, axis=0).tolist()
    assert gradient["diverged"] == 0
    assert second["curves"][0]["diverged"] == 5
    assert summary.last(second, "gd", "train") == np.inf
    assert summary.last(first, "gd", "test") == np.median(TEST[:, -1])
    error, step = summary.lowest(second, "gd", "train")
    assert (error, step) == (np.median(TRAIN[:, :5], axis=0).min(), step)
    assert second["curves"][0]["train"]["median"][step] == error
    assert summary.diverged([first]) == []
    assert summary.diverged([first, second]) == [
        "Runs that diverged: 5 of gradient descent in panel b."
    ]


def test_what_a_panel_reaches():
    curves = {"snr=4/gd/train": TRAIN, "snr=4/gd/test": TEST, "snr=4/dd/train": TEST}
    curves |= {"snr=4/dd/test": TEST, "snr=4/dd/state_evolution": TEST + 0.25}
    (panel,) = summary.summarise_errors(curves)
    medians = np.median(TEST, axis=0)
    lowest = f"(lowest {medians.min():.3g}, at step {medians.argmin()}; mean absolute gap "
    assert summary.reached(panel) == (
        f"λ = 4: gradient descent ends with train error {np.median(TRAIN[:, -1]):.3g} and test "
        f"error {medians[-1]:.3g} {lowest}{summary.gap(TRAIN, TEST):.3g}); decoupled descent ends "
        f"with train error {medians[-1]:.3g} and test error {medians[-1]:.3g} {lowest}0; state "
        "evolution is within 0.25 of the test error on average)."
    )
    assert summary.reached(panel | {"name": "signalless"}).startswith("Gradient descent ends with")


def test_medians_apart():
    train = np.where(np.arange(7) < 5, TRAIN, np.inf)
    (panel,) = summary.summarise_errors({"a/dd/train": train, "a/dd/test": TEST})
    expected = abs(np.median(TRAIN, axis=0) - np.median(TEST, axis=0))
    np.testing.assert_allclose(summary.apart(panel, "dd")[:5], expected[:5])
    assert np.isinf(summary.apart(panel, "dd")[5:]).all()
    assert np.isinf(summary.medians(panel, "dd", "train")).tolist() == [False] * 5 + [True] * 2


def test_distance_to_theory_is_between_medians():
    curves = {"a/dd/train": TRAIN, "a/dd/test": TEST, "a/dd/state_evolution": TEST + 0.25}
    (panel,) = summary.summarise_errors(curves)
    assert panel["curves"][0]["distance_to_theory"] == pytest.approx(0.25)
