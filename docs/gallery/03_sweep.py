"""
A sweep: choosing by the training error
=======================================

Twelve configurations, rates and dampings, train together on the same rows. The one with the lowest
training error is chosen. Because it was chosen as the lowest, its error is a little too low on
average. ``corrected_error`` corrects for this.
"""

import decoupled_descent as dd

mixture = dd.mixtures.xor(dimension=300, snr=5.0)
X, y = mixture.sample(400, seed=0)
objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
algorithms = {
    f"lr {lr}, damping {damping}": dd.DecoupledDescent(lr, damping)
    for lr in (0.02, 0.04, 0.06, 0.08)
    for damping in (1.0, 0.95, 0.9)
}
fresh = mixture.sample(4000, seed=1)
result = dd.sweep(X, y, objective, algorithms, steps=120, test=fresh, progress=False)

# %%
# Left: all training curves. Right: the difference of each from the winner. Differences are taken
# row by row on the same data, so their intervals are narrow.

figure = result.plot()
figure.set_size_inches(9, 3.6)
figure

# %%
# The estimated error of the winner, before and after the correction, and its error on fresh rows:

best, corrected = result.best, result.corrected_error
print(f"lowest training error {best.train_error[best.best_step]:.3f}")
print(f"corrected {corrected.error:.3f} ± {corrected.stderr:.3f}")
print(f"on fresh rows {best.test_error[best.best_step]:.3f}")
