"""The second half of the verdict, in words and as a table."""

import pytest

from decoupled_descent.app.report import render_report
from decoupled_descent.app.report.comparison import answers, usefulness
from decoupled_descent.app.report.data import Contender, is_trusted
from decoupled_descent.app.report.page import render_section
from tests.app.report.examples import changed, classification, regression
from tests.app.report.reading import Page


def three(guess=(0.2, 0.02), linear=(0.05, 0.01), scores=(0.8, 0.78, 0.6), median=None):
    """A model, a linear model and a guess; pairs are the gain and its standard error."""
    return [
        Contender("this model", 0.4, 0.02, scores[0], median, 0.0, 0.0, 0.4),
        Contender(
            "linear model", 0.4 + linear[0], 0.02, scores[1], median, *linear, 0.4 + linear[0]
        ),
        Contender("always no", 0.4 + guess[0], 0.02, scores[2], median, *guess, 0.4 + guess[0]),
    ]


@pytest.mark.parametrize(
    ("contenders", "words"),
    [
        (three(), ["yes", "yes"]),
        (three(linear=(0.01, 0.01)), ["yes", "about as good"]),
        (three(linear=(-0.05, 0.01)), ["yes", "no"]),
        (three(linear=(-0.001, 0.0001)), ["yes", "about as good"]),
        (three(linear=(0.001, 0.0001)), ["yes", "about as good"]),
        (three(linear=(0.0, 0.0)), ["yes", "it is one"]),
        (three(guess=(0.01, 0.02)), ["no", "yes"]),
        (three(guess=(-0.1, 0.02)), ["no", "yes"]),
        (three(scores=(0.99, 0.99, 0.99)), ["only its probabilities", "yes"]),
        (three(scores=(0.1, 0.1, 0.3), median=2.0), ["yes", "yes"]),
        ([], []),
    ],
)
def test_answers(contenders, words):
    given = answers(contenders)
    assert [one.word for one in given] == words
    for one in given:
        assert (one.tone == "ok") == (one.word == "yes")


@pytest.mark.parametrize(
    ("contenders", "tone", "words"),
    [
        (three(), "ok", "the model is better than guessing"),
        (three(linear=(-0.05, 0.01)), "caution", "but a linear model is better still"),
        (three(guess=(0.01, 0.02)), "alarm", "not significantly better than guessing"),
        (three(guess=(-0.1, 0.02)), "alarm", "the model is not better than guessing"),
        (three(scores=(0.99, 0.99, 0.99)), "caution", "only its probabilities are better"),
    ],
)
def test_the_second_half_of_the_verdict(contenders, tone, words):
    shown, sentence = usefulness(contenders)
    assert shown == tone
    assert words in sentence


def test_a_comparison_is_worth_as_much_as_its_estimate():
    assert usefulness(three(), trusted=False)[0] == "note"
    assert "not known" in usefulness(three(), trusted=False)[1]
    assert usefulness(three(guess=(0.01, 0.02)), trusted=False)[0] == "alarm"
    assert not is_trusted({"verdict": "do not trust"})
    assert is_trusted({"verdict": "caution"})
    assert is_trusted(None)


def test_reasons():
    lower, _ = answers(three())
    space = "\N{NO-BREAK SPACE}"
    assert lower.reason == (
        f"80.0{space}% right, against 60.0{space}% for “always no”; its error is 33.3{space}% lower"
    )
    chance, _ = answers(three(guess=(-0.01, 0.02)))
    assert "its error is 2.6\u00a0% higher, which" in chance.reason
    rare, _ = answers(three(scores=(0.99, 0.99, 0.991)))
    right = f"99.0{space}% right, against 99.1{space}% for “always no”"
    assert rare.reason == f"its error is 33.3{space}% lower, although {right}"
    numbers, _ = answers(three(median=2.0))  # errors of numbers are roots: √(0.4/0.6)
    assert numbers.reason == f"against “always no”, its error is 18.4{space}% lower"


def test_the_page_has_cards_and_a_table():
    page = Page(render_report(classification(contenders=three())))
    assert "Is it any good? Better than guessing? ✓ yes" in page.text
    assert "always no 60.0 % 0.600" in page.text
    numbers = render_section("comparison", changed(regression(), contenders=three(median=3.0)))
    assert "median absolute error" in numbers
    assert "0.632<" in numbers  # √0.4, with three digits
    assert render_section("comparison", classification()) == ""


def test_the_table_says_what_it_has():
    text = Page(render_section("comparison", classification(contenders=three()))).text
    assert "The first line has the estimates at the top of the page." in text
