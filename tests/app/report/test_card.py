"""The model card has the numbers of the report, and no text of the data acts as Markdown."""

from dataclasses import replace

from decoupled_descent.app.report.card import escaped, model_card
from decoupled_descent.app.report.data import Origin
from tests.app.report.examples import classification, regression


def test_the_card_has_what_the_report_has():
    origin = Origin("2026-01-02 03:04 UTC", "1.2.3", "0123456789abcdef", "decoupled train `a`.csv")
    card = model_card(replace(regression(), origin=origin))
    for text in ("# Model card: diabetes.csv: progression", "2026-01-02 03:04 UTC", "1.2.3"):
        assert text in card
    assert "```sh\ndecoupled train `a`.csv\n```" in card
    assert "- Fingerprint of the data: 0123456789abcdef" in card
    assert "| R² | 0." in card
    assert "| 0.430 to 0.560 |" in card
    assert "Verdict: **caution**" in card
    assert "- heavy tails (caution): Some columns have values far out." in card
    assert "- Standardised all columns." in card


def test_numbers_that_are_not_trusted_are_not_to_be_quoted():
    data = regression()
    assert "Do not quote" not in model_card(data)
    bad = replace(data, diagnosis=dict(data.diagnosis or {}) | {"verdict": "do not trust"})
    assert "Do not quote these numbers." in model_card(bad)


def test_text_of_the_data_is_escaped():
    title = "a|b\n# c <script> [x](y) **z**"
    card = model_card(replace(classification(), title=title, notes=["run `x|y` <b>"]))
    first = card.splitlines()[0]
    assert first == "# Model card: " + escaped(title)
    assert first.replace("\\<", "").count("<") == 0
    assert "- run `x|y` \\<b\\>" in card
