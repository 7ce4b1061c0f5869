import numpy as np
import pytest
import torch

import decoupled_descent as dd


def problem(algorithm, steps=4):
    mixture = dd.mixtures.flipped_classes(100, snr=2.0, labels=(0.0, 1.0))
    X, y, modes = mixture.sample_with_modes(300, seed=0)
    objective = dd.Objective(dd.heads.Linear(), "logistic")
    seen = []
    dd.fit(X, y, objective, algorithm, steps, callbacks=[seen.append], seed=0)
    theory = dd.StateEvolution(mixture, objective, algorithm, paths=256, randomisations=2)
    return seen[-1].info.preactivations, modes, theory.run(steps)


def test_the_curve_is_the_density_of_the_limit():
    h, modes, evolution = problem(dd.DecoupledDescent(0.1))
    figure = evolution.plot_preactivations(h, modes, -1)
    for j, ax in enumerate(figure.axes):
        x, density = ax.lines[0].get_data()
        np.testing.assert_allclose(np.trapezoid(density, x), 1, atol=1e-3)
        centre = np.trapezoid(density * x, x)
        np.testing.assert_allclose(centre, float(evolution.alignment[-1, j]), atol=1e-3)
        bars = sum(bar.get_height() * bar.get_width() for bar in ax.patches)
        np.testing.assert_allclose(bars, 1)
    assert len(figure.legends) == 1


def test_training_rows_of_gradient_descent_have_a_limit_of_their_own():
    h, modes, evolution = problem(dd.GradientDescent(0.4))
    legend = evolution.plot_preactivations(h, modes, -1).legends[0]
    labels = [text.get_text() for text in legend.get_texts()]
    assert "limit, training rows" in labels


def test_bad_shapes_are_refused():
    _, modes, evolution = problem(dd.DecoupledDescent(0.1))
    with pytest.raises(ValueError, match=r"preactivations has shape \(300, 2\)"):
        evolution.plot_preactivations(torch.zeros(300, 2), modes, 0)
