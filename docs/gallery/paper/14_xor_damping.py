"""
XOR with damping
================

Three dampings on the same data: the training error follows the test error for each of them.

``decoupled reproduce xor-damping`` computes it in full (``fig:etaZeroSweep`` in the paper).
"""

import tempfile
import textwrap

import matplotlib.pyplot as plt

import decoupled_descent as dd

with tempfile.TemporaryDirectory() as folder:
    found = dd.reproduce.reproduce("xor-damping", folder, quick=True, jobs=1, progress=False)
    picture, findings = plt.imread(found.files[0]), found.summary["findings"]

height, width = picture.shape[:2]
figure = plt.figure(figsize=(width / 150, height / 150), dpi=150)
axes = figure.add_axes((0, 0, 1, 1))
axes.imshow(picture)
axes.set_axis_off()

# %%
# What it shows, in words:

print(textwrap.fill(findings, 90))
