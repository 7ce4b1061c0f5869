"""Evaluations in notebooks: the numbers of tables and figures are those of the evaluation."""

import numpy as np
import pytest

import decoupled_descent as dd
from decoupled_descent.evaluation import Evaluation


def probabilities(count=2, n=200):
    rng = np.random.default_rng(0)
    y = np.arange(n) % count
    scores = np.exp(rng.normal(size=(n, count)) + 1.5 * np.eye(count)[y])
    return y, scores / scores.sum(1, keepdims=True)


def test_the_table_has_error_interval_and_verdict():
    y, p = probabilities()
    evaluation = dd.evaluate(predictions=p, y=y)
    text = evaluation._repr_html_()
    for number in (evaluation.error, *evaluation.interval):
        assert f"{number:.4g}" in text
    assert evaluation.verdict in text
    assert "accuracy" in text


def test_calibration_and_roc():
    y, p = probabilities()
    evaluation = dd.evaluate(predictions=p, y=y, groups=np.arange(200) // 2)
    calibration, roc = evaluation.plot().axes
    points = calibration.lines[1].get_xydata()
    assert len(points) == 10
    rows = np.argsort(p[:, 1], kind="stable")[:20]
    assert points[0] == pytest.approx([p[rows, 1].mean(), y[rows].mean()])
    assert f"{evaluation.estimate('auc').value:.3f}" in roc.get_title()
    x, height = roc.lines[1].get_xydata().T
    assert np.trapezoid(height, x) == pytest.approx(evaluation.estimate("auc").value)


def test_several_classes_have_no_roc():
    y, p = probabilities(3)
    (only,) = dd.evaluate(predictions=p, y=y).plot().axes
    assert "most probable class" in only.get_xlabel()


def test_decisions():
    y, p = probabilities(3)
    evaluation = dd.evaluate(predictions=p.argmax(1), y=y)
    (only,) = evaluation.plot().axes
    heights = [line.get_ydata()[0] for line in only.lines if len(line.get_ydata()) == 1]
    recalls = [np.mean(p.argmax(1)[y == k] == k) for k in range(3)]
    assert heights == pytest.approx(recalls)


def test_numbers():
    rng = np.random.default_rng(0)
    said = rng.normal(size=200)
    true = said + rng.normal(size=200)
    evaluation = dd.evaluate(predictions=said, y=true)
    left, right = evaluation.plot().axes
    assert len(left.lines[1].get_xdata()) == 200
    rows = np.argsort(said, kind="stable")[-20:]
    assert right.lines[1].get_ydata()[-1] == pytest.approx((true - said)[rows].mean())
    assert isinstance(evaluation, Evaluation)


def test_one_row_of_a_class_has_no_roc():
    _, p = probabilities()
    (only,) = dd.evaluate(predictions=p, y=(np.arange(200) == 7).astype(int)).plot().axes
    assert only.get_title() == "calibration"
