"""
Early stopping without a validation set
=======================================

A small network on 800 noisy rows. Its training error falls and then rises, like the error on new
rows. So it can decide when to stop.
"""

import matplotlib.pyplot as plt

import decoupled_descent as dd

mixture = dd.mixtures.flipped_classes(400, snr=1.5, flip=0.1, labels=(0, 1))
X, y = mixture.sample(800, seed=0)
fresh = mixture.sample(4000, seed=1)
objective = dd.Objective(dd.heads.TwoLayer(3, seed=0), "logistic")
algorithm = dd.DecoupledDescent(lr=0.15, damping=0.99)

run = dd.fit(X, y, objective, algorithm, 300, test=fresh, progress=False)
stopped = dd.fit(
    X, y, objective, algorithm, 300, callbacks=dd.EarlyStopping(patience=15), progress=False
)

# %%
# The dotted line is where early stopping ended the training, the dot the step that it kept. The
# band is the 95 % interval. The fresh rows are for comparison only.

figure, axis = plt.subplots(figsize=(5.5, 3.4), layout="constrained")
low, high = (run.train_error + side * 1.96 * run.train_error_stderr for side in (-1, 1))
axis.fill_between(range(len(low)), low, high, color="#0072B2", alpha=0.2, lw=0)
axis.plot(run.train_error, color="#0072B2", label="training error")
axis.plot(run.test_error, color="#D55E00", label="error on fresh rows")
best = stopped.best_step
axis.plot(best, stopped.train_error[best], "o", color="#0072B2", label=f"kept: step {best}")
axis.axvline(len(stopped.train_error) - 1, color="0.5", ls=":", label="training stopped")
axis.set(xlabel="step", ylabel="log loss", ylim=(0.3, 0.8))
_ = axis.legend(frameon=False)

# %%
# The estimated error of the step that was kept, its error on fresh rows, and the lowest error on
# fresh rows of all steps:

print(f"estimated {stopped.train_error[best]:.3f} ± {stopped.train_error_stderr[best]:.3f}")
print(f"on fresh rows {run.test_error[best]:.3f}, lowest {run.test_error.min():.3f}")
