"""Every figure of the paper in small."""

from dataclasses import replace

import pytest

from decoupled_descent.app import reproduce
from decoupled_descent.app.reproduce import mnist
from tests.app.cli.conftest import refused, run, trained  # noqa: F401 # fixtures

TINY = {
    "signalless": {"n": 20, "d": 40},
    "signalless-sweep": {"n": 20, "d": 40, "c": [0.5, 2.0]},
    "xor": {"n": 20, "d": 20, "snr": [4.0]},
    "xor-damping": {"n": 20, "d": 20, "damping": [1.0, 0.9]},
    "mnist": {"n": 40, "widths": [2]},
    "runtime": {"n": 40, "width": 2},
    "cifar": {"n": 60, "width": 2},
}
COMMON = {"steps": 4, "test_rows": 20, "replications": 2}


@pytest.fixture
def tiny(monkeypatch, tmp_path):
    """Every experiment in small, no data at hand, an output folder."""
    for name, settings in TINY.items():
        experiment = reproduce.EXPERIMENTS[name]
        small = replace(experiment, settings=experiment.settings | COMMON | settings, quick={})
        monkeypatch.setitem(reproduce.EXPERIMENTS, name, small)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("DECOUPLED_DATA", raising=False)
    monkeypatch.setattr(
        "sklearn.datasets.fetch_openml", lambda *a, **k: (_ for _ in ()).throw(OSError("offline"))
    )
    mnist._load.cache_clear()
    yield tmp_path / "figures"
    mnist._load.cache_clear()
