"""
Are the predicted probabilities right?
======================================

If a classifier predicts 80 %, it should be right in 80 of 100 cases. On its own training rows it
looks better than it is. Here the probability of each row is predicted without the row.
"""

import matplotlib.pyplot as plt
from sklearn.datasets import load_breast_cancer

import decoupled_descent as dd

X, y = load_breast_cancer(return_X_y=True)
X = X[:, :2]  # two columns only, so that there is something to be wrong about
model = dd.DecoupledClassifier(features="linear").fit(X[:300], y[:300])
calibration = model.calibration_

# %%
# Each dot is a tenth of the rows, with about the same predicted probability. On the line, predicted
# probabilities and observed frequencies agree.

table = calibration.table
figure, axis = plt.subplots(figsize=(4.2, 4), layout="constrained")
axis.plot([0, 1], [0, 1], color="0.7", lw=1)
axis.scatter(table["stated"], table["seen"], s=60, color="#0072B2", alpha=0.7, clip_on=False)
axis.set(xlabel="predicted probability", ylabel="observed frequency", xlim=(0, 1), ylim=(0, 1))
axis.set_aspect("equal")

# %%
# The mean distance from the line, what it would be by chance alone, and the accuracy: estimated,
# and on other rows.

print(f"calibration error {calibration.error:.3f}, by chance {calibration.chance:.3f}")
print(f"accuracy {model.estimated_accuracy_:.3f} ± {model.estimated_accuracy_stderr_:.3f}")
print(f"on other rows {model.score(X[300:], y[300:]):.3f}")
