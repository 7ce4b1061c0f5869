"""Formulas as MathML, which browsers draw by themselves: no script, no font to download."""

import re

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
#: What the translator of docutils does not know, and what to write instead.
INSTEAD = {r"\textstyle": "", r"\dots": r"\ldots", r"\big": ""}
UNKNOWN = re.compile(r"\\(textstyle|dots|big)(?![a-zA-Z])")


def mathml(node: nodes.Node, *, block: bool) -> str:
    """Translate a formula; what the translator does not know is a warning, and stays as it is."""
    text = UNKNOWN.sub(lambda match: INSTEAD[match[0]], node.astext())
    if block and r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    try:
        return tex2mathml(text, as_block=block)
    except Exception as error:  # docutils raises MathError, and others where it is surprised
        logger.warning("cannot translate the formula %s (%s)", text, error, location=node)
        return node.astext()


def inline(writer, node) -> None:
    writer.body.append(mathml(node, block=False))
    raise nodes.SkipNode


def display(writer, node) -> None:
    writer.body.append(f'<div class="math">{mathml(node, block=True)}</div>')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (display, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
