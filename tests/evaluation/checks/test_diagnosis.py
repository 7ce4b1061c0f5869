"""The verdict follows from the findings, and every case has findings that make sense."""

import json
import math
from dataclasses import replace

import pytest
import torch

import decoupled_descent as dd
from decoupled_descent.evaluation.checks.check import STATUSES, Finding
from decoupled_descent.evaluation.checks.diagnosis import Diagnosis, diagnose
from tests.evaluation.checks.problems import GD, ODD, WHITE, clean, names, objective, trained
from tests.problems import normal


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("algorithm", [None, ODD, WHITE], ids=["none", "odd", "dd"])
def test_clean_rows_pass_every_check(seed, algorithm):
    diagnosis = diagnose(*clean(seed=seed), algorithm=algorithm)
    assert diagnosis.verdict == "trust", str(diagnosis)
    assert not any(math.isnan(f.value) for f in diagnosis.findings)


@pytest.mark.parametrize("seed", range(5))
def test_a_clean_run_is_trusted(seed):
    X, y = clean(1000, seed=seed)
    diagnosis = diagnose(X, y, trained(X, y))
    assert diagnosis.verdict == "trust", str(diagnosis)
    assert {"correction", "Stein's identity", "long tails"} <= names(diagnosis)


@pytest.mark.parametrize("algorithm", [None, WHITE], ids=["odd", "dd"])
def test_data_findings_do_not_depend_on_order_or_basis(algorithm):
    X, y = clean(200, 30)
    X[:2] *= 4
    X[100:110] = X[90:100]
    first = {f.name: f.value for f in diagnose(X, y, algorithm=algorithm).findings}
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0))
    basis = torch.linalg.qr(normal(30, 30)).Q.to(X)
    for other in (diagnose(X[order], y[order], algorithm=algorithm),
                  diagnose(X @ basis, y, algorithm=algorithm)):  # fmt: skip
        assert {f.name: f.value for f in other.findings} == pytest.approx(first, rel=1e-4)


def finding(state, name="a"):
    return Finding(name, 1.0, "caution from 2", state, "why", "do this")


@pytest.mark.parametrize(
    ("states", "verdict"),
    [
        ([], "trust"),
        (["ok", "ok"], "trust"),
        (["note", "ok"], "trust"),
        (["note", "caution"], "caution"),
        (["ok", "caution", "caution"], "caution"),
        (["caution", "alarm", "ok"], "do not trust"),
    ],
)
def test_verdict_is_that_of_the_worst_finding(states, verdict):
    diagnosis = Diagnosis(tuple(finding(state) for state in states))
    assert diagnosis.verdict == verdict
    assert diagnosis.summary.startswith(f"{verdict}:")
    assert diagnosis.to_dict()["verdict"] == verdict


def test_text_and_json():
    X, y = clean(40, 60)
    diagnosis = diagnose(X, y, trained(X, y, GD))
    order = [STATUSES.index(f.status) for f in diagnosis.findings]
    assert order == sorted(order, reverse=True)
    assert set(order) >= {0, 2, 3}
    text = str(diagnosis)
    assert text.splitlines()[0] == diagnosis.summary
    assert all(f.name in text for f in diagnosis.findings)
    assert all((f.reason in text) == (f.status != "ok") for f in diagnosis.findings)
    assert "\x1b" not in text
    back = json.loads(json.dumps(diagnosis.to_dict(), allow_nan=False))
    assert back["verdict"] == "do not trust"
    assert [Finding(**f) for f in back["findings"]] == list(diagnosis.findings)


# Edges -----------------------------------------------------------------------------------------

EDGES = {
    "two rows": (normal(2, 3), torch.tensor([0.0, 1.0]), "logistic", 1),
    "one column": (normal(30, 1), (normal(30) > 0).double(), "logistic", 1),
    "constant column": (
        torch.cat([normal(30, 3), torch.zeros(30, 1)], 1),
        (normal(30) > 0).double(),
        "logistic",
        1,
    ),
    "one class": (normal(30, 4), torch.ones(30), "logistic", 1),
    "soft labels": (normal(30, 4), torch.linspace(0, 1, 30), "logistic", 1),
    "five classes": (normal(50, 4), torch.arange(50) % 5, "cross_entropy", 5),
    "regression": (normal(60, 4), normal(60), "squared", 1),
    "constant response": (normal(60, 4), torch.ones(60), "squared", 1),
    "two responses": (normal(60, 4), normal(60, 2), "squared", 2),
    "a zero row": (torch.cat([torch.zeros(2, 3), normal(20, 3)]), torch.arange(22) % 2, "x", 2),
}


@pytest.mark.parametrize("algorithm", [ODD, WHITE, GD], ids=["odd", "dd", "gd"])
@pytest.mark.parametrize("name", EDGES)
@pytest.mark.filterwarnings("ignore::decoupled_descent.descent.ScalingWarning")
def test_edges_have_finite_findings(name, algorithm):
    X, y, loss, outputs = EDGES[name]
    loss = "cross_entropy" if loss == "x" else loss
    run = dd.fit(X, y, objective(outputs, loss, 2), algorithm, 5, progress=False)
    for diagnosis in (diagnose(X, y), diagnose(X, y, run), diagnose(X, y, algorithm=algorithm)):
        assert all(math.isfinite(f.value) for f in diagnosis.findings)
        json.dumps(diagnosis.to_dict(), allow_nan=False)
        assert str(diagnosis)


def test_refusals():
    X, y = clean(60, 5)
    run = trained(X, y, steps=3)
    with pytest.raises(ValueError, match="the rows that it was trained on"):
        diagnose(X[:50], y[:50], run)
    with pytest.raises(ValueError, match="task='clustering' must be"):
        diagnose(X, y, task="clustering")


def test_the_interval_is_widened_by_every_finding():
    factors = (1.5, 1.0, 2.0)
    found = [replace(finding("ok"), widening=factor) for factor in factors]
    assert Diagnosis(tuple(found)).widening == 3
    assert Diagnosis(()).widening == 1


def test_notebooks_show_the_verdict_and_what_raised_it():
    found = Finding("a<b", 1.0, "caution from 0.5", "caution", "Why & how.", "do")
    fine = Finding("fine", 0.0, "", "ok", "Bad things.", "nothing")
    page = Diagnosis((found, fine))._repr_html_()
    assert "<b>caution</b>" in page
    assert "a&lt;b" in page
    assert "Why &amp; how." in page
    assert "Bad things" not in page
    assert "1 check found no problem" in page
    assert page.count('style="text-align: left"') == 10
