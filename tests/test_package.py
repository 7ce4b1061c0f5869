"""What ``import decoupled_descent`` gives, and what it does not cost."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

import decoupled_descent as dd


def run(program: str) -> None:
    names = ("OMP_WAIT_POLICY", "GOMP_SPINCOUNT")
    environment = {name: value for name, value in os.environ.items() if name not in names}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


def test_every_public_name_is_there():
    assert set(dd.__all__) <= set(dir(dd))
    for name in dd.__all__:
        assert getattr(dd, name) is not None
        assert vars(dd)[name] is getattr(dd, name)  # looked up once
    assert dd.estimators.DecoupledClassifier is dd.DecoupledClassifier
    assert dd.heads.Product.__module__ == "decoupled_descent.objective.heads"
    assert dd.noise.Covariance
    assert dd.rules.Damped
    assert dd.evaluation.paired_difference


def test_type_checkers_see_the_names_that_run():
    """Every name of the tables is imported under TYPE_CHECKING, from the same module."""
    tree = ast.parse(Path(dd.__file__).read_text())
    blocks = [node for node in tree.body if isinstance(node, ast.If)]
    (block,) = [block for block in blocks if ast.unparse(block.test) == "TYPE_CHECKING"]
    seen = {}
    for node in block.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.asname == alias.name  # exported, says PEP 484
            seen[alias.name] = node.module
    homes = {name: f"decoupled_descent.{module}" for name, module in dd._NAMES.items()}
    homes |= {
        name: f"decoupled_descent.{module}".rpartition(".")[0]
        for name, module in dd._MODULES.items()
    }
    assert seen == homes
    assert set(dd.__all__) == set(homes)


def test_names_that_do_not_exist():
    with pytest.raises(AttributeError, match="no attribute 'DecoupledForest'"):
        _ = dd.DecoupledForest


def test_the_import_brings_no_other_library_and_a_star_every_name():
    run(
        "import sys, decoupled_descent\n"
        "slow = {'scipy', 'sklearn', 'pandas', 'matplotlib', 'joblib', 'rich', 'torch', 'numpy'}\n"
        "assert not slow & set(sys.modules), slow & set(sys.modules)\n"
        "assert decoupled_descent.DecoupledClassifier().get_params()\n"
        "from decoupled_descent import *\n"
        "assert fit and heads and DecoupledClassifier\n"
    )


def test_idle_threads_sleep_where_that_can_still_be_said():
    ask = "import os; assert os.environ.get('OMP_WAIT_POLICY') == "
    run(f"import decoupled_descent; {ask}'PASSIVE'")
    kept = f"import os; os.environ['OMP_WAIT_POLICY'] = 'ACTIVE'; import decoupled_descent; {ask}"
    run(kept + "'ACTIVE'")


def test_training_brings_no_slow_library():
    """Training, kernels, data sets and plots wait with scikit-learn, pandas and matplotlib.

    PyTorch came first, so that nothing can be said of its threads any more.
    """
    run(
        "import os, sys, torch, decoupled_descent as dd\n"
        "assert os.environ.get('OMP_WAIT_POLICY') is None\n"
        "before = set(sys.modules)\n"
        "X, y = dd.mixtures.xor(8, 4.0).sample(20, seed=0)\n"
        "objective = dd.Objective(dd.heads.Product(a=1.0), 'logistic')\n"
        "dd.fit(X, y, objective, dd.DecoupledDescent(0.05), 3)\n"
        "from decoupled_descent import datasets, plotting\n"
        "from decoupled_descent.tables.features import Kernel, as_features\n"
        "Kernel('rbf').fit_transform(X), as_features('auto')\n"
        "slow = {'sklearn', 'pandas', 'matplotlib', 'scipy.stats'}\n"
        "assert not slow & set(sys.modules) - before, slow & set(sys.modules)\n"
        "assert datasets.Whitening().get_params()['method'] == 'zca'\n"
    )


def test_only_public_names_are_listed():
    assert not {"Any", "TYPE_CHECKING", "import_module"} & set(dir(dd))


PAPER = """
import sys, torch
import decoupled_descent as dd
mixture = dd.mixtures.xor(dimension=20, snr=4.0)
X, y = mixture.sample(60, seed=0)
objective, algorithm = dd.Objective(dd.heads.Product(a=1.0), "logistic"), dd.DecoupledDescent(0.05)
run = dd.fit(X, y, objective, algorithm, 5)
run.evaluation.verdict, run.estimate("accuracy"), dd.diagnose(X, y, run)
dd.StateEvolution(mixture, objective, algorithm, ratio=1.0).run(3, theta=torch.randn(2, 20))
dd.sweep(X, y, objective, {"one": algorithm}, steps=4)
model = torch.nn.Sequential(torch.nn.Linear(20, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
dd.fit(X, y, model, loss="logistic", steps=3).evaluation
dd.CrossFit(model, "logistic", lambda p: torch.optim.AdamW(p), 5).fit(X, y, 2).evaluation
others = ("sklearn", "pandas", "typer", "rich", "jinja2", "joblib", "pyarrow", "matplotlib")
print([name for name in others if name in sys.modules])
"""


def test_the_library_of_the_paper_needs_torch_numpy_and_scipy_only():
    """What tables and the application need is imported where these begin."""
    ended = subprocess.run(
        [sys.executable, "-c", PAPER], capture_output=True, text=True, check=True, timeout=120
    )
    assert ended.stdout.split("\n")[-2] == "[]"
