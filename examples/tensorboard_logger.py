"""Log the train error, which is the test error, to TensorBoard: a callback is any callable."""

import sys

from torch.utils.tensorboard import SummaryWriter

import decoupled_descent as dd

writer = SummaryWriter(sys.argv[1] if len(sys.argv) > 1 else None)


def log(step: dd.training.Step) -> None:
    writer.add_scalar("train error", step.train_error, step.index)
    writer.add_scalar("its standard error", step.train_error_stderr, step.index)


X, y = dd.mixtures.xor(dimension=200, snr=6.0).sample(300, seed=0)
objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), steps=60, callbacks=[log])
writer.close()
print(run)
