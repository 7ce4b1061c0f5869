"""Memory beyond X, in processes of their own: what each path may take at most."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.tables.estimators import base

MEASURE = """
import sys, warnings
import torch
import decoupled_descent as dd

warnings.simplefilter("ignore")
torch.set_num_threads(1)
name, n, d = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
X = torch.randn(n, d, generator=torch.Generator().manual_seed(0)) / d**0.5
y = (X[:, 0] > 0).float()
objective = dd.Objective(dd.heads.TwoLayer(4, seed=0), "logistic")
algorithms = {
    "gd": dd.GradientDescent(0.01),
    "dd": dd.DecoupledDescent(0.01),
    "odd": dd.OrthogonalDecoupledDescent(0.01),
}
model = dd.DecoupledClassifier(features="linear", ridge=1.0)
model.fit(X[:300].numpy(), y[:300].numpy())
model.predict_proba(X[:5].numpy())
warm = X[:400, :300].contiguous() * (d / 300) ** 0.5  # libraries take their memory once
for algorithm in algorithms.values():
    dd.fit(warm, y[:400], objective, algorithm, 3)


def resident(line):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(one.split()[1]) / 1024 for one in lines if one.startswith(line))


with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the largest so far is now the present one
before = resident("VmRSS")
options = {
    "newton": {"features": "linear", "ridge": 1.0},
    "maps": {"features": ["matern(1)", "matern(2)/ranks", "linear"], "ridge": 1.0},
    "search": {},
}
if name == "predict_proba":
    model.predict_proba(X.numpy())
elif name in options:
    dd.DecoupledClassifier(**options[name]).fit(X.numpy(), y.numpy())
else:
    dd.fit(X, y, objective, algorithms[name], 3)
print((resident("VmHWM") - before) / (n * d * 4 / 2**20))
"""

LINUX = pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="needs Linux")
#: The most that may be taken, in units of X. A decomposition takes about six d × d matrices in
#: float64, which are 12 d/n of X.
LIMITS = {
    **{"gd": 0.1, "dd": 0.1, "odd": 0.2 + 12 / 20, "predict_proba": 0.5},
    **{"newton": 3.0, "maps": 3.0, "search": 3.0},
}


def taken(name, n, d):
    """Memory beyond X in units of X, in a process of its own."""
    source = os.pathsep.join([str(Path(dd.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    variables = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-c", MEASURE, name, str(n), str(d)]
    result = subprocess.run(command, env=variables, capture_output=True, text=True, check=True)
    return float(result.stdout)


@pytest.mark.slow
@LINUX
@pytest.mark.parametrize("name", LIMITS)
def test_memory_beyond_x(name):
    n, d = (20_000, 1000) if name == "odd" else (20_000, 2000)
    assert taken(name, n, d) <= LIMITS[name]


def test_predictions_of_large_arrays_come_in_blocks(monkeypatch):
    X, y = dd.mixtures.flipped_classes(10, 2.0, labels=(0, 1)).sample(60, seed=0)
    model = dd.DecoupledClassifier(features="linear", ridge=1.0).fit(X.numpy(), y.numpy())
    complete = model.predict_proba(X.numpy())
    monkeypatch.setattr(base, "PREDICTED", 70)
    np.testing.assert_allclose(model.predict_proba(X.numpy()), complete, rtol=1e-12)
    spoilt = X.numpy().copy()
    spoilt[50, 3] = np.inf
    with pytest.raises(ValueError, match="infinity"):
        model.predict_proba(spoilt)
    with pytest.raises(ValueError, match="features"):
        model.predict_proba(X.numpy()[:, :5])
