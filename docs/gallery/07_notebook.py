"""
What a notebook shows
=====================

Runs, sweeps, diagnoses and estimators have an HTML representation. This page shows what Jupyter
displays for the last line of each cell.
"""

from sklearn.datasets import load_breast_cancer

import decoupled_descent as dd

# sphinx_gallery_thumbnail_path = "_static/notebook.png"
mixture = dd.mixtures.flipped_classes(60, snr=2.0, flip=0.05, labels=(0, 1))
X, y = mixture.sample(300, seed=0)
objective = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")

# %%
# A run: the step that was kept, its error, and why training ended.

run = dd.fit(X, y, objective, dd.DecoupledDescent(0.1, 0.98), steps=60, progress=False)
run

# %%
# A sweep: all configurations in order, and the error of the best one, corrected for the selection.

dampings = {f"damping {damping}": dd.DecoupledDescent(0.1, damping) for damping in (1.0, 0.95, 0.9)}
dd.sweep(X, y, objective, dampings, steps=60, progress=False)

# %%
# A diagnosis: the verdict, and every check that is not *ok*.

dd.diagnose(X[:40], y[:40], algorithm=dd.DecoupledDescent(0.1))

# %%
# An estimator, as scikit-learn draws it.

table, answers = load_breast_cancer(return_X_y=True, as_frame=True)
dd.DecoupledClassifier(features="linear").fit(table[:200], answers[:200])
