"""The report in a headless Chromium: quiet console, fits the screen, legible, printable."""

import html
import json
import re

import numpy as np
import pytest

from decoupled_descent.app.report import render_report
from tests.app.report.chromium import run_chromium
from tests.app.report.examples import DIAGNOSIS, changed, classification, regression

WIDTHS = (360, 390, 768, 1280)

MEASURE = """
const colours = (frame, element) => {
  const backgrounds = [];
  for (let e = element; e; e = e.parentElement)
    backgrounds.push(frame.getComputedStyle(e).backgroundColor);
  return [frame.getComputedStyle(element).color, ...backgrounds].join("; ");
};
addEventListener("load", () => {
  const results = [...document.querySelectorAll("iframe")].map((iframe) => {
    const page = iframe.contentDocument, root = page.documentElement, frame = iframe.contentWindow;
    page.querySelectorAll("details").forEach((one) => { one.open = true; });
    const box = (e) => {
      const rectangle = e.getBoundingClientRect();
      return [rectangle.left, rectangle.top, rectangle.right, rectangle.bottom];
    };
    const outside = [...page.querySelectorAll("body *")].filter(
      (e) => !e.closest("table") && box(e)[2] > root.clientWidth + 1);
    return {
      name: iframe.name, width: root.clientWidth, scrollWidth: root.scrollWidth,
      outside: outside.map((e) => e.outerHTML.slice(0, 80)),
      figures: [...page.querySelectorAll("svg")].map((svg) => ({box: box(svg),
        texts: [...svg.querySelectorAll("text")].map((t) => [t.textContent, ...box(t)])})),
      colours: [...new Set([...page.querySelectorAll("h1,h2,h3,p,li,td,th,dt,dd,figcaption,.badge")]
        .filter((e) => e.textContent.trim()).map((e) => colours(frame, e)))],
    };
  });
  document.getElementById("result").textContent = JSON.stringify(results);
});
"""


def look(folder, pages, *options, widths=WIDTHS):
    """Load every page at every width in a browser; returns what was measured, and the console."""
    frames = "".join(
        f'<iframe name="{name}" width="{width}" height="900" style="border:0" '
        f'srcdoc="{html.escape(source)}"></iframe>'
        for name, source in pages.items()
        for width in widths
    )
    (folder / "frames.html").write_text(
        f'<!doctype html><meta charset="utf-8"><script>{MEASURE}</script>'
        f'<pre id="result"></pre>{frames}',
        encoding="utf-8",
    )
    address = (folder / "frames.html").as_uri()
    done = run_chromium(folder / "profile", *options, "--dump-dom", address)
    result = re.search(r'<pre id="result">(.*?)</pre>', done.stdout, re.DOTALL)[1]
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return json.loads(html.unescape(result)), console


@pytest.fixture(scope="module")
def pages():
    long_names = [f"a_rather_long_class_name_{k}" for k in range(12)]
    long = classification(12, title="a_very_long_file_name_without_any_space" * 4 + ".csv")
    rename = dict(zip(long.rows.classes, long_names, strict=True))
    long = changed(
        long, classes=long_names, labels=[rename[one] for one in long.rows.labels],
        predictions=[rename[one] for one in long.rows.predictions], diagnosis=DIAGNOSIS,
        settings={"a_long_setting" * 5: "value" * 50}, errors=np.linspace(2e-5, 1e-5, 30),
        stderrs=[1e-6] * 30, notes=["word" * 100], best_step=3,
    )  # fmt: skip
    chosen = {"regression": regression(), "long": long, "two": classification(2)}
    return {name: render_report(data) for name, data in chosen.items()}


@pytest.fixture(scope="module")
def measured(pages, tmp_path_factory):
    return look(tmp_path_factory.mktemp("light"), pages)


def test_browser_has_nothing_to_complain_about(measured):
    _, console = measured
    assert console == []


def test_nothing_wider_than_the_screen(measured, pages):
    frames, _ = measured
    assert [(one["name"], one["width"]) for one in frames] == [
        (n, w) for n in pages for w in WIDTHS
    ]
    for one in frames:
        assert one["scrollWidth"] <= one["width"], one["name"]
        assert one["outside"] == []


def test_figures_are_legible_and_labels_apart(measured):
    frames, _ = measured
    for one in frames:
        assert len(one["figures"]) == (3 if one["name"] == "regression" else 1)
        for figure in one["figures"]:
            left, top, right, bottom = figure["box"]
            for index, (text, *box) in enumerate(figure["texts"]):
                assert left - 1 <= box[0] < box[2] <= right + 1, (one["name"], one["width"], text)
                assert top - 1 <= box[1] < box[3] <= bottom + 1, (one["name"], one["width"], text)
                assert box[3] - box[1] >= 10, (one["width"], text)
                for other, *other_box in figure["texts"][:index]:
                    apart_x = box[0] >= other_box[2] or other_box[0] >= box[2]
                    apart_y = box[1] + 3 >= other_box[3] or other_box[1] + 3 >= box[3]  # line gaps
                    assert apart_x or apart_y, (one["name"], one["width"], text, other)


def channels(colour):
    """Red, green, blue from 0 to 1, and opacity, of a computed colour."""
    values = [float(v) for v in re.findall(r"(?<![\w.])[\d.]+(?:e-?\d+)?", colour)]
    scale = 255 if colour.startswith("rgb") else 1
    return np.array(values[:3]) / scale, (values[3] if len(values) > 3 else 1.0)


def contrast(chain):
    """The contrast ratio of WCAG 2 of a text on the backgrounds behind it."""
    text, *behind = chain.split("; ")
    under = np.ones(3)
    for colour in reversed(behind):
        solid, opacity = channels(colour)
        under = opacity * solid + (1 - opacity) * under
    lights = []
    for colour in (channels(text)[0], under):
        linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
        lights.append(linear @ [0.2126, 0.7152, 0.0722])
    return (max(lights) + 0.05) / (min(lights) + 0.05)


def test_text_stands_out_by_day_and_by_night(measured, pages, tmp_path):
    assert contrast("rgb(119, 119, 119); rgb(255, 255, 255)") == pytest.approx(4.48, abs=0.01)
    dark, console = look(tmp_path, pages, "--blink-settings=preferredColorScheme=0", widths=(390,))
    assert console == []
    for frames, page_is_dark in ((measured[0], False), (dark, True)):
        chains = {chain for one in frames for chain in one["colours"]}
        assert len(chains) > 10
        for chain in chains:
            assert contrast(chain) >= 4.5, chain
            body = channels(chain.split("; ")[-2])[0]
            assert (body.mean() < 0.5) == page_is_dark


def test_prints_to_paper(pages, tmp_path):
    (tmp_path / "report.html").write_text(pages["regression"], encoding="utf-8")
    paper = tmp_path / "report.pdf"
    address = (tmp_path / "report.html").as_uri()
    run_chromium(tmp_path / "profile", f"--print-to-pdf={paper}", address)
    content = paper.read_bytes()
    assert content.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 4
