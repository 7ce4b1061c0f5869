"""Search rates and widths with Optuna, reporting and pruning on the train error: no split."""

import optuna

import decoupled_descent as dd

mixture = dd.mixtures.flipped_classes(dimension=300, snr=2.0, flip=0.05, labels=(0, 1))
X, y = mixture.sample(400, seed=0)


def objective(trial: optuna.Trial) -> float:
    head = dd.heads.TwoLayer(trial.suggest_int("width", 2, 10), seed=0)
    algorithm = dd.DecoupledDescent(
        lr=trial.suggest_float("lr", 0.03, 1.0, log=True),
        damping=trial.suggest_float("damping", 0.8, 1.0),
    )

    def report(step: dd.training.Step) -> bool:
        trial.report(step.train_error, step.index)
        return trial.should_prune()

    run = dd.fit(X, y, dd.Objective(head, "logistic"), algorithm, steps=80, callbacks=[report])
    if run.stop_reason is dd.training.StopReason.CALLBACK:
        raise optuna.TrialPruned
    return float(run.train_error.min())


optuna.logging.set_verbosity(optuna.logging.WARNING)
study = optuna.create_study(
    sampler=optuna.samplers.TPESampler(seed=0),
    pruner=optuna.pruners.MedianPruner(n_startup_trials=4, n_warmup_steps=20),
)
study.optimize(objective, n_trials=20)
pruned = len(study.get_trials(states=[optuna.trial.TrialState.PRUNED]))
print(f"best estimated test error {study.best_value:.3f} with {study.best_params}; {pruned} pruned")
