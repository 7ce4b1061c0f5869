import json

import numpy as np
import pytest
import torch
from typer.testing import CliRunner

import decoupled_descent as dd
from decoupled_descent.app.cli.command import app
from decoupled_descent.plotting import style as plotting
from decoupled_descent.theory import examples


def evolve(folder, *arguments):
    options = ["--dimension", "120", "--steps", "12", "--out", str(folder), "--json"]
    result = CliRunner().invoke(app, ["evolve", *arguments, *options])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.mark.parametrize("name", examples.NAMES)
def test_every_example_from_the_command_line(tmp_path, name):
    outcome = evolve(tmp_path, name, "--runs", "3", "--paths", "256", "--damping", "0.95")
    runs = np.array(outcome["train_error_of_runs"], dtype=float)
    assert runs.shape == (3, 12)
    predicted, stderr = np.array(outcome["test_error"]), np.array(outcome["stderr"])
    assert predicted.shape == stderr.shape == (12,)
    # three runs at n = 120: a rough comparison, but a wrong curve would be far off
    allowed = 6 * runs.std(0, ddof=1) / 3**0.5 + 0.05
    assert (np.abs(runs.mean(0) - predicted) < allowed).all()
    assert (tmp_path / f"{name}.png").read_bytes()[:4] == b"\x89PNG"


def test_a_table_without_runs(tmp_path):
    options = ["--dimension", "50", "--steps", "5", "--runs", "0", "--out", str(tmp_path)]
    result = CliRunner().invoke(app, ["evolve", "signalless", *options])
    assert result.exit_code == 0, result.output
    assert "predicted" in result.stdout
    assert "signalless.png" in result.stdout.replace("\n", "")


def test_an_unknown_example():
    with pytest.raises(ValueError, match="'spiral' is unknown; use one of signalless"):
        examples.example("spiral", 10, 1.0)


def test_the_runs_start_where_the_prediction_does():
    mixture, objective = examples.example("xor", 200, 4.0)
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.05), 2.0, paths=256)
    outcome = examples.compare(theory, 200, steps=4, runs=2, seed=3, signal=0.2)
    assert outcome.train.shape == outcome.test.shape == (2, 4)
    # both see θ_1 = noise + 0.2 (μ_1, μ_2), and m_1 = 0.2 χ up to the noise
    assert float(outcome.evolution.alignment[0, 0, 0]) == pytest.approx(3.2, abs=1.0)
    assert abs(float(outcome.test[:, 0].mean() - outcome.evolution.test_error[0])) < 0.2


def test_the_start_and_all_data_are_independent(monkeypatch):
    mixture, objective = examples.example("flipped", 20, 1.0)
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.05))
    seeds, sample = [], dd.GaussianMixture.sample

    def recorded(self, n, seed):
        seeds.append(seed)
        return sample(self, n, seed)

    monkeypatch.setattr(dd.GaussianMixture, "sample", recorded)
    for start in range(4):
        seeds.clear()
        examples.compare(theory, 20, steps=2, runs=3, seed=start)
        assert len({start, *seeds}) == 7


def test_taylor_panel_leaves_out_terms_that_vanish():
    mixture, objective = examples.example("flipped", 20, 1.0)
    theory = dd.StateEvolution(mixture, objective, dd.DecoupledDescent(0.05, 0.95))
    terms = dd.theory.taylor_terms(theory.run(6, overlap=torch.eye(1)))
    _, axes = plotting.new_figure()
    plotting.taylor_panel(axes[0, 0], terms, "terms")
    labels = axes[0, 0].get_legend_handles_labels()[1]
    assert labels == ["theta damping", "signal", "variance damping", "cross", "actual change"]
    change = axes[0, 0].lines[-1].get_ydata()
    np.testing.assert_allclose(change, np.diff(terms.test_error))
