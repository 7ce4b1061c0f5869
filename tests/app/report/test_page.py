"""The report: what it shows is what it was given, it is sound HTML, and it is written whole."""

import dataclasses
import os
import re
from collections import Counter

import numpy as np
import pytest

from decoupled_descent.app.report import render_report, write_report
from decoupled_descent.app.report.figures import MOST_POINTS
from decoupled_descent.app.report.page import SECTIONS
from decoupled_descent.checks import Target
from tests.app.report.examples import DIAGNOSIS, changed, classification, regression
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
        icon, *contents = page.attributes("href")
        assert icon == "data:,"
        assert set(contents) <= {f"#{one}" for one in page.attributes("id")}
        assert not page.attributes("src")
        assert not re.search(r"@import|url\(|<script|<img|<iframe", source)


def test_contents_and_unfolded_sections():
    page = Page(render_report(classification(2, notes=["a note"], next_steps=["a step"])))
    sections = [one["id"] for one in page.named("div") if one.get("id") in SECTIONS]
    assert page.attributes("href")[1:] == [f"#{name}" for name in sections]
    assert {"next_steps", "predictions", "notes"} <= set(sections)
    unfolded = [one for one in page.named("details") if "open" in one]
    assert len(unfolded) == 1  # what to do next


def test_numbers_that_are_not_trusted_are_struck_out():
    bad = {"verdict": "do not trust", "findings": []}
    for data in (regression(), classification(2)):
        fine, doubted = (render_report(changed(data, diagnosis=one)) for one in (None, bad))
        assert 'class="doubted"' not in fine
        assert '<s class="doubtful">' not in fine
        estimates = [one for one in SECTIONS if SECTIONS[one].has_estimates]
        shown = [one for one in estimates if f'<div id="{one}">' in doubted]
        assert shown
        assert doubted.count('<section class="doubted">') == len(shown)
        assert doubted.count("Do not quote these numbers") == len(shown)
        card = re.search(r'<div class="card"><h3>(.*?)</div>', doubted, re.DOTALL)[1]
        plain = re.sub(r"<s .*?</s>|<[^>]*>", "", card, flags=re.DOTALL)
        assert not re.search(r"\d", plain)


def spoil(value, poison):
    """Append the poison to every text in a structure."""
    if isinstance(value, str):
        return value + poison
    if isinstance(value, dict):
        return {key: spoil(one, poison) for key, one in value.items()}
    if dataclasses.is_dataclass(value):
        texts = {"task": Target.CLASSES} if hasattr(value, "task") else {}
        return type(value)(**(spoil(vars(value), poison) | texts))
    return [spoil(one, poison) for one in value] if isinstance(value, list) else value


@pytest.mark.parametrize("classes", [3, 20])
def test_all_text_is_escaped(classes):
    data = classification(classes, notes=["a note"], next_steps=["a step"], diagnosis=DIAGNOSIS)

    def poisoned(poison):
        settings = {f"key{poison}": f"value{poison}"}
        candidates = [{f"a key{poison}": k, f"alike{poison}": poison} for k in (1, 2)]
        spoilt = spoil(changed(data, candidates=candidates), poison)
        return Page(render_report(changed(spoilt, settings=settings)))

    poison = "\"'><script>alert(1)</script><img src=x>&amp;$title"
    mild, harsh = poisoned("x" * len(poison)), poisoned(poison)
    assert [(tag, sorted(a)) for tag, a in harsh.tags] == [(tag, sorted(a)) for tag, a in mild.tags]
    shown = ["made up", "log loss", "Heavy tails make the interval less sure.", "Clip them."]
    shown += [
        "a note",
        "a step",
        "heavy tails",
        "Some columns have values far out.",
    ]
    shown += ["key", "value", "a key", "alike", Counter(data.rows.labels).most_common(1)[0][0]]
    for text in shown:
        assert text + poison in harsh.text


def test_headline_shows_estimates_and_intervals():
    data = classification(
        error=0.41234, error_interval=(0.3718, 0.4549), score=0.8768,
        score_interval=(0.8484, 0.9009),
    )  # fmt: skip
    text = Page(render_report(data)).text
    assert "Log loss: 0.412 (0.372 to 0.455)" in text
    assert "87.7 % 95 % interval 84.8 % to 90.1 %" in text
    commonest = Counter(data.rows.labels).most_common(1)[0]
    assert f"“{commonest[0]}” would be right in {commonest[1] / 6:.1f} %" in text
    assert "not checked" in text


def test_verdict_is_words_not_colour_alone():
    for verdict in ("trust", "caution", "do not trust"):
        diagnosis = DIAGNOSIS | {"verdict": verdict}
        text = Page(render_report(changed(regression(), diagnosis=diagnosis))).text
        assert re.search(rf"Can this number be trusted. . {verdict.capitalize()} ", text)


def test_commands_in_backticks_are_code():
    page = Page(render_report(classification(next_steps=["Run `decoupled predict <model>` now."])))
    assert page.texts[page.texts.index("decoupled predict <model>") + 1] == " now."
    assert len(page.named("code")) == 1


def test_a_hundred_thousand_rows_are_thinned_and_said_so():
    random = np.random.default_rng(0)
    labels = random.normal(size=100_000)
    large = changed(
        regression(), labels=labels, predictions=labels + random.normal(size=100_000),
        errors=np.linspace(2, 1, 50_000), stderrs=np.full(50_000, 0.1),
        best_step=49_999, candidates=[{"lr": k / 1e4, "chosen": k == 700} for k in range(900)],
    )  # fmt: skip
    source = render_report(large)
    assert len(source.encode()) < 500_000
    assert source.count("h0") == 2 * MOST_POINTS
    text = Page(source).text
    assert "2,000 of the 100,000 rows, picked at random" in text
    assert "701 ✓ chosen" in text
    assert "Not listed: 799 more candidates" in text
    assert len(render_report(classification(100, rows=100_000)).encode()) < 100_000


@pytest.mark.parametrize(
    "changes",
    [
        {"errors": [0.5], "stderrs": [0.1], "best_step": 0},
        {"errors": [0.5], "stderrs": [NAN], "best_step": 0},
        {"errors": [1.0] * 30, "stderrs": [0.0] * 30},
        {"errors": [0.0] * 30, "stderrs": [0.0] * 30},
        {"errors": [1.0] * 10 + [NAN] + [0.5] * 18 + [INF]},
        {"errors": [NAN] * 30, "stderrs": [NAN] * 30},
        {"errors": [1.0, 1e300, 1e308] * 10},
        {"stderrs": [INF] * 30},
        {"error": NAN, "error_interval": (NAN, NAN)},
        {"error": INF, "score": -INF, "score_interval": ()},
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
        ({"errors": []}, "errors has 0 steps"),
        ({"stderrs": [0.1]}, "stderrs 1; pass one of each"),
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
    paths = [tmp_path / "missing" / "r.html", tmp_path / "file" / "r.html", tmp_path / "folder"]
    if getattr(os, "geteuid", lambda: 0)() != 0:
        closed = tmp_path / "closed"
        closed.mkdir(mode=0o500)
        paths.append(closed / "r.html")
    for path in paths:
        with pytest.raises(OSError, match="cannot write the report") as caught:
            write_report(path, classification())
        assert str(path) in str(caught.value)
        assert "\n" not in str(caught.value)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "closed") == [
        "file",
        "folder",
    ]


def test_options_are_not_broken_after_their_hyphens():
    page = render_report(classification(next_steps=["Run `decoupled predict o --out p.csv`."]))
    assert 'decoupled predict o <span class="option">--out</span> p.csv</code>' in page
