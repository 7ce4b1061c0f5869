"""
XOR at three signal-to-noise ratios
===================================

Four clusters, and a label that no linear model finds. At low signal nothing can be learned. At high
signal decoupled descent has the lower test error, and its training error agrees with it.

``decoupled reproduce xor`` computes it in full (``fig:XorClassification`` in the paper).
"""

import tempfile
import textwrap

import matplotlib.pyplot as plt

import decoupled_descent as dd

with tempfile.TemporaryDirectory() as folder:
    found = dd.reproduce.reproduce("xor", folder, quick=True, jobs=1, progress=False)
    picture, findings = plt.imread(found.files[0]), found.summary["findings"]

height, width = picture.shape[:2]
figure = plt.figure(figsize=(width / 150, height / 150), dpi=150)
axes = figure.add_axes((0, 0, 1, 1))
axes.imshow(picture)
axes.set_axis_off()

# %%
# What it shows, in words:

print(textwrap.fill(findings, 90))
