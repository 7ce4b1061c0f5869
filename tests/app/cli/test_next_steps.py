"""What to do with a model that was just trained depends on its verdict."""

from pathlib import Path

import pytest

import decoupled_descent as dd
from decoupled_descent.app.cli.next_steps import next_steps
from decoupled_descent.evaluation.checks.check import Finding
from tests.app.report.examples import changed, classification
from tests.app.report.test_comparison import three


def report(findings=()):
    """A report of six ridges with these findings."""
    return classification(
        errors=[0.5] * 6,
        stderrs=[0.1] * 6,
        best_step=1,
        diagnosis=dd.evaluation.Diagnosis(findings).to_dict(),
    )


@pytest.mark.parametrize(
    ("status", "start"), [("ok", "Predict"), ("caution", "Quote"), ("alarm", "Do not quote the es")]
)
def test_what_to_do_next_depends_on_the_verdict(status, start):
    finding = Finding("divergence", 1.0, "caution from 0.5", status, "why", "go slowly")
    steps = next_steps(report((finding,)), Path("d.csv"), Path("o p"))
    assert steps[0].startswith(start)
    assert steps[-1] == "Predict new rows: `decoupled predict 'o p' new.csv --out predictions.csv`"
    assert ("ivergence: go slowly" in " ".join(steps)) == (status != "ok")


def test_what_to_look_at_comes_first():
    leak = Finding(
        "column that leaks the target", 0.99, "note from 0.95", "note",
        "'tax' alone predicts the target. If it is not known before, the model is useless.",
        "if so, train with --drop tax",
    )  # fmt: skip
    large = Finding(
        "rows behind the error", 1.1, "note below 20", "note", "Few rows.",
        "check row 7, with 90 % of the error (a mistake? a total?); quote the median as well",
    )  # fmt: skip
    steps = next_steps(report((leak, large)), Path("d.csv"), Path("o"))
    assert steps[0].endswith(
        "If it is not known before, the model is useless: train with --drop tax."
    )
    assert steps[1] == "First check row 7, with 90 % of the error (a mistake? a total?)."
    assert steps[2].startswith("Predict new rows")


@pytest.mark.parametrize(
    ("name", "suffix"),
    [
        ("d.csv", ".csv"),
        ("d.csv.gz", ".csv.gz"),
        ("my.table.TSV.GZ", ".TSV.GZ"),
        ("1.5.parquet", ".parquet"),
    ],
)
def test_new_rows_are_asked_for_in_the_same_kind_of_file(name, suffix):
    assert f" new{suffix} " in next_steps(report(), Path(name), Path("o"))[-1]


@pytest.mark.parametrize("interrupted", [True, False])
def test_a_linear_model_is_advised_unless_the_search_was_cut(interrupted):
    beaten = three(linear=(-0.05, 0.01))
    beaten_report = changed(report(), contenders=beaten, interrupted=interrupted)
    steps = next_steps(beaten_report, Path("d.csv"), Path("o"))
    assert ("A linear model is better" in " ".join(steps)) == (not interrupted)


def test_an_estimate_that_is_not_trusted_advises_no_other_model():
    spoilt = report().diagnosis | {"verdict": "do not trust"}
    beaten = changed(report(), contenders=three(linear=(-0.05, 0.01)), diagnosis=spoilt)
    assert "A linear model is better" not in " ".join(next_steps(beaten, Path("d.csv"), Path("o")))
