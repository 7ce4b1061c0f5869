"""
An honest error for a fitted model
==================================

``dd.evaluate`` says how good a fitted model of scikit-learn is on new rows, from the rows that it
was fitted to. Here a logistic regression and a pipeline whose first step chooses columns are
evaluated, and compared with rows that neither has seen.
"""

import numpy as np
from sklearn.datasets import load_breast_cancer
from sklearn.feature_selection import SelectKBest
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd

X, y = load_breast_cancer(return_X_y=True)
rng = np.random.default_rng(0)
noise = rng.normal(size=(len(y), 300))  # columns that say nothing
X = np.hstack([X + 3 * X.std(0) * noise[:, :30], noise[:, 30:]])
order = rng.permutation(len(y))
train, test = order[:100], order[100:]
models = {
    "logistic": make_pipeline(StandardScaler(), LogisticRegression(C=0.01)),
    "columns chosen first": make_pipeline(
        StandardScaler(), SelectKBest(k=20), LogisticRegression(C=0.1)
    ),
}
found = {}
for name, model in models.items():
    model.fit(X[train], y[train])
    found[name] = dd.evaluate(model, X[train], y[train])
    fitted = log_loss(y[train], model.predict_proba(X[train]))
    truth = log_loss(y[test], model.predict_proba(X[test]))
    print(f"{name}: fitted {fitted:.2f}, on new rows {truth:.2f}\n  {found[name]}")

# %%
# The formula does not know that the columns were chosen with the help of every row. The refits see
# it, and folds take over.

print(found["columns chosen first"].reason)

# %%
# Calibration and the ROC curve of rows as if they were new, with 95 % intervals.

found["logistic"].plot()

# %%
# Which of the two is better? Both predict the same rows, so their difference is known better than
# either error.

print(found["logistic"].compare(found["columns chosen first"]))
