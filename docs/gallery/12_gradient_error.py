"""
Gradient descent that knows its own test error
==============================================

Plain gradient descent on XOR data. Training is not changed. The library follows how each row
responds to its own past gradients, and subtracts this response from the row's output. The mean loss
of the corrected outputs estimates the test error.
"""

import decoupled_descent as dd

mixture = dd.mixtures.xor(dimension=600, snr=4.0)
X, y = mixture.sample(600, seed=0)
fresh = mixture.sample(4000, seed=1)
objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
algorithm = dd.GradientDescent(lr=0.05, estimate=True)
run = dd.fit(X, y, objective, algorithm, steps=100, test=fresh, progress=False)

# %%
# The dotted curve is what gradient descent reports. The band is the 95 % interval of the estimate.
# The orange curve needs rows that you do not have in practice.

figure = run.plot("gradient descent on XOR data")

# %%
# The estimate says where to stop, and how good the model is there:

best = run.best_step
best, float(run.train_error[best]), float(run.estimated_test_error[best])

# %%
print(run.estimate("accuracy"))
