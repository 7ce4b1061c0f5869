"""What outputs mean."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from decoupled_descent.evaluation.decision_rule import DecisionRule
from decoupled_descent.evaluation.output_scale import OutputScale
from decoupled_descent.objective.losses import get_loss

CLASSES, NUMBERS = torch.tensor([0, 1]), torch.tensor([0.0, 1.0])


@pytest.mark.parametrize(
    ("criterion", "y", "scale"),
    [
        (nn.CrossEntropyLoss(), CLASSES, OutputScale.LOGITS),
        (F.binary_cross_entropy_with_logits, NUMBERS, OutputScale.LOGITS),
        (nn.NLLLoss(), CLASSES, OutputScale.LOG_PROBABILITIES),
        (nn.BCELoss(), NUMBERS, OutputScale.PROBABILITIES),
        (nn.MSELoss(), NUMBERS, OutputScale.VALUES),
        (lambda o, y: o, NUMBERS, OutputScale.VALUES),
        (lambda o, y: o, CLASSES, OutputScale.LOGITS),
    ],
)
def test_the_criterion_tells_what_outputs_are(criterion, y, scale):
    assert OutputScale.of(criterion, y) is scale


def test_one_logit_and_two_are_the_same_probability():
    logit = torch.tensor([0.3, -2.0], dtype=torch.float64)
    both = torch.stack([torch.zeros(2), logit], 1)
    one, kind = OutputScale.LOGITS.predictions(logit.unsqueeze(1), CLASSES)
    two, _ = OutputScale.LOGITS.predictions(both, CLASSES)
    logs, _ = OutputScale.LOG_PROBABILITIES.predictions(torch.log_softmax(both, 1), CLASSES)
    assert one == pytest.approx(two, abs=1e-12)
    assert one == pytest.approx(logs, abs=1e-12)
    assert kind.decisions(one, DecisionRule()).tolist() == [1, 0]


def test_several_answers_per_row_are_probabilities_of_their_own():
    logits = torch.tensor([[0.0, 5.0, -5.0]])
    found, kind = OutputScale.LOGITS.predictions(logits, torch.tensor([[0.0, 1.0, 0.0]]))
    assert found == pytest.approx(torch.sigmoid(logits).numpy())
    assert kind.decisions(found, DecisionRule()).tolist() == [[0, 1, 0]]
    found, kind = OutputScale.LOGITS.predictions(logits, torch.tensor([1]))
    assert found.sum() == pytest.approx(1.0)
    assert kind.decisions(found, DecisionRule()).tolist() == [1]


@pytest.mark.parametrize(
    ("loss", "scale"),
    [("logistic", "logits"), ("cross_entropy", "logits"), ("squared", "values"),
     ("absolute", "values")],
)  # fmt: skip
def test_losses_by_name_say_what_their_outputs_are(loss, scale):
    y = torch.tensor([0.0, 1.0])
    assert OutputScale.of(loss, y) is OutputScale.of(get_loss(loss), y) is OutputScale(scale)
    own = get_loss(nn.functional.cross_entropy)
    assert OutputScale.of(own, y) is OutputScale.LOGITS
