"""
The figures of the paper
========================

``decoupled reproduce all --out figures`` computes every figure of the paper in full. Here are the
small versions, in the order of the paper. In words, each says what it shows.
"""

import os
import tempfile
import textwrap
from pathlib import Path

import matplotlib.pyplot as plt

import decoupled_descent as dd


def show(name):
    """Draw a figure at its small size, or the stored one, and say what it shows."""
    stored = Path("..", "figures", "paper", f"{name}.png")
    experiment = dd.reproduce.EXPERIMENTS[name]
    if experiment.prepare is not None and "DECOUPLED_DATA" not in os.environ:
        picture, findings = plt.imread(stored), "the full figure, as it was computed before"
    else:
        with tempfile.TemporaryDirectory() as folder:
            found = dd.reproduce.reproduce(name, folder, quick=True, jobs=1, progress=False)
            picture, findings = plt.imread(found.files[0]), found.summary["findings"]
    height, width = picture.shape[:2]
    axes = plt.figure(figsize=(width / 150, height / 150), dpi=150).add_axes((0, 0, 1, 1))
    axes.imshow(picture)
    axes.set_axis_off()
    print(textwrap.fill(findings, 90))


# %%
# **Regression without a signal** (``fig:noSignalReg``). There is nothing to learn. The
# training error of gradient descent falls all the same, and its test error rises. The two errors of
# decoupled descent stay together, and grow as predicted (dashes).

show("signalless")

# %%
# **Step sizes** (``fig:noSignalSweep``). Learning rate and damping depend on one parameter c. The
# training error of decoupled descent shows which c is best.

show("signalless-sweep")

# %%
# **XOR at three signal-to-noise ratios** (``fig:XorClassification``). Four clusters, and a label
# that no linear model finds. At high signal decoupled descent has the lower test error, and its
# training error agrees with it.

show("xor")

# %%
# **XOR with damping** (``fig:etaZeroSweep``). Three dampings on the same data.

show("xor-damping")

# %%
# **Noisy MNIST, zeros against eights** (``fig:lossGDvDD``). The training error is close to the test
# error up to where one would stop, and too low later: real images do not satisfy the assumptions.

show("mnist")

# %%
# **Time** (``fig:timeGDvDD``): a step of decoupled descent beside one of gradient descent.

show("runtime")

# %%
# **Cats and dogs** (``fig:cifar``). Columns of embeddings are correlated, so the training error of
# plain decoupled descent is biased; that of orthogonal descent, in the last panel, is not.

show("cifar")
