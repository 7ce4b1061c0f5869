"""
Time per step
=============

The time of a step and of a run, beside the paper's listing. Compare within the figure
only: times of a busy machine are rough.

``decoupled reproduce runtime`` computes it in full (``fig:timeGDvDD`` in the paper).
"""

import os
import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

import decoupled_descent as dd

# %%
# The data are not part of the package. If the variable ``DECOUPLED_DATA`` does not name their
# folder, this page shows the full figure, which was computed before.

stored = Path("..", "..", "figures", "paper", "runtime.png")
if "DECOUPLED_DATA" in os.environ:
    with tempfile.TemporaryDirectory() as folder:
        found = dd.reproduce.reproduce("runtime", folder, quick=True, jobs=1, progress=False)
        picture, findings = plt.imread(found.files[0]), found.summary["findings"]
elif stored.exists():
    picture, findings = plt.imread(stored), "the full figure, as it was computed before"
else:  # a notebook somewhere else
    raise FileNotFoundError("set DECOUPLED_DATA to the folder of the data sets")

height, width = picture.shape[:2]
figure = plt.figure(figsize=(width / 150, height / 150), dpi=150)
axes = figure.add_axes((0, 0, 1, 1))
axes.imshow(picture)
axes.set_axis_off()

# %%
# What it shows, in words:

print(textwrap.fill(findings, 90))
