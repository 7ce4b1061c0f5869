"""One HTML page with all figures and their findings; pictures are embedded."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

from decoupled_descent.files import write_text

if TYPE_CHECKING:
    from decoupled_descent.app.reproduce import Reproduced

STYLE = """
body { font: 1rem/1.55 system-ui, sans-serif; max-width: 60rem; margin: 0 auto; padding: 1rem;
       color: #1a1a1a; background: #fff; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
img { width: 100%; height: auto; } nav a { margin-right: 0.8rem; white-space: nowrap; }
.settings { color: #555; font-size: 0.85rem; overflow-wrap: anywhere; }
.missing { border-left: 4px solid #D55E00; padding-left: 0.8rem; }
"""

PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Decoupled descent: the figures</title>
<style>{style}</style>
</head>
<body>
<h1>Decoupled descent: the figures</h1>
<p>Blue is the train error, orange the test error. Lines are medians over runs, bands quartiles,
dots the extremes, dashes what state evolution predicts.</p>
<nav>{links}</nav>
{sections}
</body>
</html>
"""

SECTION = """<section id="{name}">
<h2>{title}</h2>
<img src="data:image/png;base64,{picture}" alt="{title}: {findings}">
<p>{findings}</p>
<p class="settings">{settings}<br>Figure {label} of the paper ·
<a href="{name}/{name}.svg">SVG</a> · <a href="{name}/summary.json">numbers</a></p>
</section>"""

MISSING = """<section id="{name}">
<h2>{name}</h2>
<p class="missing">Left out: {reason}</p>
</section>"""


def write_gallery(folder: Path, done: Sequence[Reproduced], skipped: Mapping[str, str]) -> Path:
    """Write ``index.html`` with the figures, and the ones left out with the reason."""
    sections = []
    for one in done:
        picture = next(path for path in one.files if path.suffix == ".png")
        settings = ", ".join(f"{name} = {value}" for name, value in one.summary["settings"].items())
        section = SECTION.format(
            name=escape(one.experiment.name),
            title=escape(one.experiment.title),
            label=escape(one.experiment.label),
            findings=escape(one.summary["findings"]),
            settings=escape(settings),
            picture=base64.b64encode(picture.read_bytes()).decode(),
        )
        sections.append(section)
    sections += [MISSING.format(name=escape(k), reason=escape(v)) for k, v in skipped.items()]
    names = [one.experiment.name for one in done] + list(skipped)
    links = " ".join(f'<a href="#{escape(name)}">{escape(name)}</a>' for name in names)
    target = folder / "index.html"
    write_text(target, PAGE.format(style=STYLE, links=links, sections="\n".join(sections)))
    return target
