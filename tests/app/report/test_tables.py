"""Tables of the report as HTML."""

from decoupled_descent.app.report.page import render_section
from decoupled_descent.app.report.tables import KINDS
from decoupled_descent.tables.analyses.importance import Importance
from tests.app.report.examples import DIAGNOSIS, changed, classification, regression

RISES = [Importance("a", 1.0, 0.1), Importance("b", 0.0, 0.1)]


def test_numbers_stand_to_the_right_and_captions_are_read_out():
    section = render_section("training", classification())
    assert '<th scope="col" class="number">lr</th>' in section
    assert '<td data-name="lr" class="number">0.1</td>' in section
    assert '<caption class="hidden">Candidates and their lowest train errors</caption>' in section
    many = render_section("predictions", classification(20))
    assert "<caption>The most frequent mix-ups</caption>" in many


def test_every_kind_of_cell_is_written():
    sections = (
        render_section("training", regression()),
        render_section("diagnosis", classification(diagnosis=DIAGNOSIS)),
        render_section(
            "importance",
            changed(
                regression(), importance=[Importance("a", 1.0, 0.1), Importance("b", 0.0, 0.1)]
            ),
        ),
    )
    marks = {
        "text": '<th scope="row" data-name="column">a</th>',
        "number": 'class="number"',
        "badge": '<span class="badge warn">',
        "bar": '<div class="bar" style="--share:1.000"></div>',
        "advice": '<br><span class="advice">→ Clip them.</span>',
        "candidate": "chosen</span></th>",
    }
    assert set(marks) == set(KINDS)
    for mark in marks.values():
        assert mark in "".join(sections)
