"""Log the train error, which is the test error, to MLflow: a callback is any callable."""

import sys

import mlflow

import decoupled_descent as dd

if len(sys.argv) > 1:
    mlflow.set_tracking_uri(sys.argv[1])


def log(step: dd.training.Step) -> None:
    mlflow.log_metrics({"train_error": step.train_error}, step=step.index)


X, y = dd.mixtures.xor(dimension=200, snr=6.0).sample(300, seed=0)
objective = dd.Objective(dd.heads.Product(a=1.0), "logistic")
with mlflow.start_run():
    mlflow.log_params({"lr": 0.05, "damping": 1.0})
    run = dd.fit(X, y, objective, dd.DecoupledDescent(0.05), steps=20, callbacks=[log])
print(run)
