"""The runtime figure: what is timed is the same computation, and its findings."""

import numpy as np
import pytest

from decoupled_descent.app.reproduce import runtime

SMALL = runtime.RUNTIME.settings | {"n": 60, "width": 2, "steps": 5, "replications": 3}
TIMES = {
    "listing/seconds": np.full((3, 5), 0.008),
    "dd/seconds": np.full((3, 5), 0.002),
    "gd/seconds": np.full((3, 5), 0.001),
}


def test_contenders_train_the_same_network(mnist_data):
    steps = runtime.contenders(SMALL, 0, mnist_data)
    errors = {name: [step() for _ in range(5)] for name, step in steps.items()}
    np.testing.assert_allclose(errors["dd"], errors["listing"], rtol=1e-5)
    assert errors["gd"][0] == pytest.approx(errors["dd"][0], rel=1e-6)
    assert errors["gd"][-1] != pytest.approx(errors["dd"][-1], rel=1e-6)


def test_every_step_is_timed(mnist_data):
    found = runtime.RUNTIME.replicate(SMALL, 0, mnist_data)
    assert list(found) == ["listing/seconds", "dd/seconds", "gd/seconds"]
    for seconds in found.values():
        assert seconds.shape == (5,)
        assert (seconds > 0).all()


def test_summary():
    noisy = {k: v * np.array([[1], [2], [4]]) for k, v in TIMES.items()}
    step, total = runtime.RUNTIME.summarise(noisy)
    assert (step["name"], total["name"]) == ("step", "total")
    assert step["curves"][0]["milliseconds"]["median"] == pytest.approx(16)
    assert total["curves"][0]["seconds"]["median"] == pytest.approx(0.08)
    assert total["curves"][2]["seconds"]["max"] == pytest.approx(0.02)


def test_findings():
    text = runtime.RUNTIME.findings(SMALL, runtime.RUNTIME.summarise(TIMES))
    assert "listing takes 8.00 ms per step (0.04 s per run)" in text
    assert "decoupled descent costs 2.00 times one of gradient descent" in text
    assert "the listing 4.0 times as much" in text


@pytest.mark.parametrize("replications", [1, 3])
def test_figure(replications):
    rng = np.random.default_rng(0)
    noisy = {
        k: v[:replications] * rng.uniform(0.9, 1.1, (replications, 5)) for k, v in TIMES.items()
    }
    figure = runtime.RUNTIME.draw(SMALL | {"replications": replications}, noisy)
    figure.canvas.draw()
    for ax, scale in zip(figure.axes, (1e3, 5), strict=True):
        assert len(ax.lines) == 3
        for line, name in zip(ax.lines, noisy, strict=True):
            x, height = line.get_data()
            assert np.trapezoid(height, np.log(x)) == pytest.approx(1, abs=0.02)
            assert x[height.argmax()] == pytest.approx(scale * TIMES[name].mean(), rel=0.12)


def test_the_captions_settings():
    """The caption's 25 runs, not the 20 of the text's listing."""
    wanted = {"width": 9, "steps": 500, "replications": 25}
    assert {k: runtime.RUNTIME.settings[k] for k in wanted} == wanted
    assert runtime.RUNTIME.timed
