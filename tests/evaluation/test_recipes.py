"""The recipes of docs/evaluate.md, with the real libraries where they are installed."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import decoupled_descent as dd

X, y = load_breast_cancer(return_X_y=True)
order = np.random.default_rng(0).permutation(len(y))
X, y, new, labels = X[order[:200]], y[order[:200]], X[order[200:]], y[order[200:]]


def out_of_fold(model):
    return cross_val_predict(model, X, y, cv=5, method="predict_proba")[:, 1]


def test_an_optuna_study():
    optuna = pytest.importorskip("optuna")
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def model(trial):
        C = trial.suggest_float("C", 1e-4, 1e2, log=True)
        return make_pipeline(StandardScaler(), LogisticRegression(C=C, max_iter=1000))

    def objective(trial):
        oof = out_of_fold(model(trial))
        trial.set_user_attr("oof", oof.tolist())
        return float(np.mean(-np.log(np.where(y, oof, 1 - oof))))

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    study.optimize(objective, n_trials=8)
    study.optimize(lambda trial: 1 / 0, 1, catch=ArithmeticError)  # such trials have no predictions
    predictions = {
        str(trial.number): np.array(trial.user_attrs["oof"])
        for trial in study.get_trials(states=[optuna.trial.TrialState.COMPLETE])
    }
    evaluation = dd.evaluate(predictions=predictions, y=y, out_of_fold=True)
    assert evaluation.chosen == str(study.best_trial.number)
    assert evaluation.error == pytest.approx(study.best_value + evaluation.optimism)
    assert evaluation.verdict == "trust"
    best = model(study.best_trial).fit(X, y)
    chances = best.predict_proba(new)[np.arange(len(labels)), labels]
    losses = -np.log(np.maximum(chances, 1e-15))
    stderr = np.hypot(evaluation.stderr, losses.std() / len(losses) ** 0.5)
    assert abs(evaluation.error - losses.mean()) < 3 * stderr


def test_a_folder_of_csv_files(tmp_path):
    models = {
        "logistic": make_pipeline(StandardScaler(), LogisticRegression()),
        "neighbours": make_pipeline(StandardScaler(), KNeighborsClassifier(15)),
    }
    for name, one in models.items():
        frame = pd.DataFrame({"prediction": out_of_fold(one)})
        frame.to_csv(tmp_path / f"{name}.csv", index=False)
    predictions = {
        path.stem: pd.read_csv(path)["prediction"] for path in sorted(Path(tmp_path).glob("*.csv"))
    }
    evaluation = dd.evaluate(predictions=predictions, y=y, out_of_fold=True)
    assert set(evaluation.candidates) == set(models)
    assert evaluation.chosen == "logistic"
    assert evaluation.comparisons["logistic", "neighbours"].interval[1] < 0.1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_predictions_of_autogluon(tmp_path):
    tabular = pytest.importorskip("autogluon.tabular")
    train = pd.DataFrame(X).rename(columns=str).assign(ill=np.where(y, "yes", "no"))
    predictor = tabular.TabularPredictor("ill", path=str(tmp_path), verbosity=0)
    predictor.fit(train, num_bag_folds=5, hyperparameters={"RF": {}, "LR": {}})
    predictions = {name: predictor.predict_proba_oof(name) for name in predictor.model_names()}
    evaluation = dd.evaluate(predictions=predictions, y=train["ill"], out_of_fold=True)
    assert set(evaluation.candidates) == set(predictor.model_names())
    frame = pd.DataFrame(new).rename(columns=str)
    chances = predictor.predict_proba(frame, model=evaluation.chosen)
    own = np.where(labels, chances["yes"], chances["no"])
    losses = -np.log(np.maximum(own, 1e-15))
    stderr = np.hypot(evaluation.stderr, losses.std() / len(losses) ** 0.5)
    assert abs(evaluation.error - losses.mean()) < 3 * stderr
