"""The report: what it shows is what it was given, it is sound HTML, and it is written whole."""

import dataclasses
import os
import re
from collections import Counter

import numpy as np
import pytest
from scipy.stats import beta, binomtest

from decoupled_descent.app.report import ReportData, render_report, write_report
from decoupled_descent.app.report.svg import MOST_POINTS
from decoupled_descent.estimators.calibration import share_of
from tests.app.report.examples import DIAGNOSIS, classification, regression
from tests.app.report.reading import Page

NAN, INF = float("nan"), float("inf")

VOID = {"meta", "link", "br"}


def test_sound_accessible_html():
    for data in (regression(), classification(), classification(40)):
        source = render_report(data)
        page = Page(source)
        assert source.startswith("<!doctype html>")
        assert page.named("html") == [{"lang": "en"}]
        ids = page.attributes("id")
        assert len(ids) == len(set(ids))
        assert all(th["scope"] in ("row", "col", "colgroup") for th in page.named("th"))
        assert all(svg["aria-labelledby"] in ids for svg in page.named("svg"))
        levels = [int(tag[1]) for tag, _ in page.tags if tag in ("h1", "h2", "h3")]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert len(page.named("caption")) == len(page.named("table"))


def test_nothing_from_elsewhere():
    for data in (regression(), classification()):
        source = render_report(data)
        page = Page(source)
        addresses = set(re.findall(r"\w+://[^\s\"'<>)]+", source))
        assert addresses <= {"http://www.w3.org/2000/svg"}
        assert page.attributes("href") == ["data:,"]
        assert not page.attributes("src")
        assert not re.search(r"@import|url\(|<script|<img|<iframe", source)


def spoil(value, poison):
    """Append the poison to every text in a structure."""
    if isinstance(value, str):
        return value + poison
    if isinstance(value, dict):
        return {key: spoil(one, poison) for key, one in value.items()}
    return [spoil(one, poison) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("classes", [3, 20])
def test_all_text_is_escaped(classes):
    data = classification(classes, notes=["a note"], next_steps=["a step"], diagnosis=DIAGNOSIS)

    def poisoned(poison):
        fields = {f.name: getattr(data, f.name) for f in dataclasses.fields(data)}
        fields = spoil(fields, poison) | {"task": data.task}
        fields["settings"] = {f"key{poison}": f"value{poison}"}
        fields["candidates"] = [{f"a key{poison}": k, f"alike{poison}": poison} for k in (1, 2)]
        return Page(render_report(ReportData(**fields)))

    poison = "\"'><script>alert(1)</script><img src=x>&amp;$title"
    mild, harsh = poisoned("x" * len(poison)), poisoned(poison)
    assert [(tag, sorted(a)) for tag, a in harsh.tags] == [(tag, sorted(a)) for tag, a in mild.tags]
    shown = ["made up", "log loss", "Heavy tails make the interval less sure.", "Clip them."]
    shown += [
        "a note",
        "a step",
        "steps exhausted",
        "heavy tails",
        "Some columns have values far out.",
    ]
    shown += ["key", "value", "a key", "alike", Counter(data.labels).most_common(1)[0][0]]
    for text in shown:
        assert text + poison in harsh.text


def test_headline_shows_estimates_and_intervals():
    data = classification(
        estimated_error=0.41234, estimated_error_stderr=0.0212, estimated_score=0.8768,
        estimated_score_stderr=0.0134,
    )  # fmt: skip
    text = Page(render_report(data)).text
    root, half = 0.41234**0.5, 1.96 * 0.0212 / (2 * 0.41234**0.5)
    low, high = (root - half) ** 2, (root + half) ** 2
    assert f"Log loss: 0.412 ({low:.3f} to {high:.3f})" in text
    rows = 0.8768 * (1 - 0.8768) / 0.0134**2
    ends = 100 * beta(0.8768 * rows, 0.1232 * rows).ppf([0.025, 0.975])
    shown = re.search(r"87.7 % 95 % interval (\S+) % to (\S+) %", text).groups()
    # the standard error is that of rows and four more, and half a row of each kind is added
    np.testing.assert_allclose([float(end) for end in shown], ends, atol=0.2)
    commonest = Counter(data.labels).most_common(1)[0]
    assert f"“{commonest[0]}” would be right in {commonest[1] / 6:.1f} %" in text
    assert "not checked" in text


def test_uncorrected_errors_are_not_said_to_estimate_anything():
    for data in (classification(), regression()):
        claims = "estimates the error on new rows", "predicted as if it were new", "on new rows ("
        honest = Page(render_report(data)).text
        assert all(claim in honest for claim in claims)
        text = Page(render_report(dataclasses.replace(data, corrected=False))).text
        assert not any(claim in text for claim in (*claims, "expected on new rows"))
        assert "These numbers do not estimate the error on new rows" in text
        assert "the line is the error on the training rows, not on new ones" in text
        assert "more steps may improve the model" not in text


def test_advice_is_given_only_where_something_was_found():
    found = {
        "name": "x",
        "value": 1.0,
        "threshold": "note from 2",
        "reason": "Why.",
        "advice": "do",
    }
    for status in ("ok", "note", "caution", "alarm"):
        diagnosis = DIAGNOSIS | {"findings": [found | {"status": status}]}
        text = Page(render_report(classification(diagnosis=diagnosis))).text
        assert f" {status} 1 note from 2" in text
        assert ("Why. → do" in text) == ("Why." in text) == (status != "ok")
        assert ("1 check found no problem" in text) == (status == "ok")


def test_verdict_is_words_not_colour_alone():
    for verdict in ("trust", "caution", "do not trust"):
        diagnosis = DIAGNOSIS | {"verdict": verdict}
        text = Page(render_report(dataclasses.replace(regression(), diagnosis=diagnosis))).text
        assert re.search(rf"Can this number be trusted. . {verdict.capitalize()} ", text)


def test_flawless_rows_do_not_make_a_sure_score():
    _, stderr = share_of(np.ones(600, dtype=bool))
    data = classification(estimated_score=1.0, estimated_score_stderr=stderr, rows=600)
    low = binomtest(600, 600).proportion_ci(method="exact").low
    text = Page(render_report(data)).text
    shown = re.search(r"interval (\S+) % to (\S+) %", text.split("accuracy")[1])
    assert float(shown[1]) == pytest.approx(100 * low, abs=0.051)
    assert float(shown[2]) == 100
    zero = dataclasses.replace(data, estimated_score=0.0)
    text = Page(render_report(zero)).text
    shown = re.search(r"interval (\S+) % to (\S+) %", text.split("accuracy")[1])
    assert float(shown[2]) == pytest.approx(100 * (1 - low), abs=0.051)


def test_commands_in_backticks_are_code():
    page = Page(render_report(classification(next_steps=["Run `decoupled predict <model>` now."])))
    assert page.texts[page.texts.index("decoupled predict <model>") + 1] == " now."
    assert len(page.named("code")) == 1


def test_r_squared_stays_below_one():
    data = dataclasses.replace(regression(), estimated_score=0.99, estimated_score_stderr=0.02)
    text = Page(render_report(data)).text
    low, high = re.search(r"R²: 0.990 \((\S+) to (\S+)\)", text).groups()
    assert float(low) == pytest.approx(1 - 0.01 * (1 + 1.96 * 2 / 2) ** 2, abs=1e-3)
    assert float(high) == pytest.approx(1 - 0.01 * max(0, 1 - 1.96) ** 2, abs=1e-3)


def test_a_hundred_thousand_rows_are_thinned_and_said_so():
    random = np.random.default_rng(0)
    labels = random.normal(size=100_000)
    large = dataclasses.replace(
        regression(), labels=labels, predictions=labels + random.normal(size=100_000),
        train_error=np.linspace(2, 1, 50_000), train_error_stderr=np.full(50_000, 0.1),
        best_step=49_999, candidates=[{"lr": k / 1e4, "chosen": k == 700} for k in range(900)],
    )  # fmt: skip
    source = render_report(large)
    assert len(source.encode()) < 500_000
    assert source.count("h0") == 2 * MOST_POINTS
    text = Page(source).text
    assert "2,000 of the 100,000 rows, picked at random" in text
    assert "about 1,000 of the 50,000 steps" in text
    assert "701 ✓ chosen" in text
    assert "Not listed: 799 more candidates" in text
    assert len(render_report(classification(100, rows=100_000)).encode()) < 100_000


@pytest.mark.parametrize(
    "changes",
    [
        {"train_error": [0.5], "train_error_stderr": [0.1], "best_step": 0},
        {"train_error": [0.5], "train_error_stderr": [NAN], "best_step": 0},
        {"train_error": [1.0] * 30, "train_error_stderr": [0.0] * 30},
        {"train_error": [0.0] * 30, "train_error_stderr": [0.0] * 30},
        {"train_error": [1.0] * 10 + [NAN] + [0.5] * 18 + [INF]},
        {"train_error": [NAN] * 30, "train_error_stderr": [NAN] * 30},
        {"train_error": [1.0, 1e300, 1e308] * 10},
        {"train_error_stderr": [INF] * 30},
        {"estimated_error": NAN, "estimated_error_stderr": NAN},
        {"estimated_error": INF, "estimated_score": -INF, "estimated_score_stderr": None},
        {"candidates": [{"lr": NAN}, {"width": INF}, {}]},
        {"candidates": [], "settings": {}, "diagnosis": {"verdict": "trust"}},
        {"diagnosis": {"verdict": "?", "findings": [{"name": "x", "value": NAN, "status": "?"}]}},
        {"labels": [], "predictions": [], "n_rows": 0},
        {"classes": None},
        {"settings": {"lr": np.float32(0.1), "sizes": [1, 2], "none": None, "on": True}},
        {"settings": {"long": "x" * 100_000}},
    ],
)
def test_odd_values_make_a_sound_page(changes):
    source = render_report(classification(**changes))
    Page(source)
    assert not re.search(r'="[^"]*(nan|inf)\b[^"]*"', re.sub(r"<style>.*</style>", "", source))
    assert len(source) < 100_000


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": "ranking"}, "task='ranking' must be"),
        ({"train_error": []}, "train_error has 0 steps"),
        ({"train_error_stderr": [0.1]}, "train_error_stderr 1; pass one of each"),
        ({"best_step": 30}, "best_step=30 must be from 0 to 29"),
        ({"predictions": ["class 0"]}, "predictions 1; pass one prediction per label"),
    ],
)
def test_impossible_reports_are_refused(changes, message):
    with pytest.raises(ValueError, match=message) as caught:
        classification(**changes)
    assert "\n" not in str(caught.value)


def test_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "report.html"
    data = classification(title="undecodable \udce4 and ä")
    assert write_report(target, data) == target
    first = target.read_text(encoding="utf-8")
    assert "undecodable ? and ä" in first
    with pytest.raises(ValueError, match="does not hold the label"):
        write_report(target, classification(labels=["strange"] * 600))
    assert target.read_text(encoding="utf-8") == first
    write_report(str(target), classification(title="second"))
    assert "second" in target.read_text(encoding="utf-8")
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_where_it_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    places = [tmp_path / "missing" / "r.html", tmp_path / "file" / "r.html", tmp_path / "folder"]
    if getattr(os, "geteuid", lambda: 0)() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        places.append(closed / "r.html")
    for place in places:
        with pytest.raises(OSError, match="cannot write the report") as caught:
            write_report(place, classification())
        assert str(place) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "closed") == [
        "file",
        "folder",
    ]


def test_checks_that_found_nothing_say_what_they_ask():
    """A fine check has its question, and never the words for a fault."""
    fine = {"name": "duplicate rows", "value": 0.0, "threshold": "", "status": "ok",
            "reason": "Half of the rows are copies.", "advice": "delete them"}  # fmt: skip
    text = Page(render_report(classification(diagnosis=DIAGNOSIS | {"findings": [fine]}))).text
    assert "Do rows occur twice, exactly or nearly?" in text
    assert "copies" not in text
    assert "delete them" not in text


def test_options_are_not_broken_after_their_hyphens():
    page = render_report(classification(next_steps=["Run `decoupled predict o --out p.csv`."]))
    assert 'decoupled predict o <span class="option">--out</span> p.csv</code>' in page
