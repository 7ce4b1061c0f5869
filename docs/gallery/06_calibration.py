"""
Are stated probabilities right?
===============================

A classifier that says 80 % should be right in 80 of 100 cases. To check this on the rows it was
trained on would be self-praise. Here each row's probability comes from a model without it.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import decoupled_descent as dd

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :2]  # two columns only, so that there is something to be wrong about
model = dd.DecoupledClassifier(features="linear").fit(X[:300], y[:300])
calibration = model.calibration_

# %%
# Each dot is a tenth of the rows, those with about the same stated probability. On the line,
# statement and truth agree.

table = calibration.table
figure, axis = plt.subplots(figsize=(4.2, 4), layout="constrained")
axis.plot([0, 1], [0, 1], color="0.7", lw=1)
axis.scatter(table["stated"], table["seen"], s=60, color="#0072B2", alpha=0.7, clip_on=False)
axis.set(xlabel="stated probability", ylabel="share that came true", xlim=(0, 1), ylim=(0, 1))
axis.set_aspect("equal")

# %%
# The mean distance from the line, what chance would make of it, and the accuracy: estimated, and
# on the rows that were kept for this comparison.

print(f"calibration error {calibration.error:.3f}, by chance {calibration.chance:.3f}")
print(f"accuracy {model.estimated_accuracy_:.3f} ± {model.estimated_accuracy_stderr_:.3f}")
print(f"on other rows {model.score(X[300:], y[300:]):.3f}")
