"""
Regression without a signal: step sizes
=======================================

Learning rate and damping depend on one parameter c. The training error of decoupled descent shows
which c is best.

``decoupled reproduce signalless-sweep`` computes it in full (``fig:noSignalSweep`` in the paper).
"""

import tempfile
import textwrap

import matplotlib.pyplot as plt

import decoupled_descent as dd

with tempfile.TemporaryDirectory() as folder:
    found = dd.reproduce.reproduce("signalless-sweep", folder, quick=True, jobs=1, progress=False)
    picture, findings = plt.imread(found.files[0]), found.summary["findings"]

height, width = picture.shape[:2]
figure = plt.figure(figsize=(width / 150, height / 150), dpi=150)
axes = figure.add_axes((0, 0, 1, 1))
axes.imshow(picture)
axes.set_axis_off()

# %%
# What it shows, in words:

print(textwrap.fill(findings, 90))
