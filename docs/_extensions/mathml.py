"""Formulas as MathML, which browsers draw by themselves: no script, no font to download."""

import html
import re
from xml.etree import ElementTree

from docutils import nodes
from docutils.utils.math.latex2mathml import tex2mathml
from sphinx.util import logging

logger = logging.getLogger(__name__)
NAMESPACE = "http://www.w3.org/1998/Math/MathML"
#: What the translator of docutils does not know, and what to write instead.
INSTEAD = {r"\textstyle": "", r"\dots": r"\ldots", r"\big": ""}
#: Accents over letters, as docutils writes them, and as characters that join a letter. Browsers
#: place the latter well without a font for mathematics, and the former on top of the letter.
ACCENTS = {"ˆ": "\u0302", "~": "\u0303", "ˉ": "\u0304", "ˇ": "\u030c", "˙": "\u0307"}
#: Entities that XML does not know, such as &ApplyFunction; after a name.
ENTITY = re.compile(r"&(?!(?:lt|gt|amp|quot|apos);)\w+;")
UNKNOWN = re.compile(r"\\(textstyle|dots|big)(?![a-zA-Z])")


def tag(name: str) -> str:
    return f"{{{NAMESPACE}}}{name}"


def accented(formula: str) -> str:
    """Put accents on letters, and their indices beside them; docutils puts these below."""
    ElementTree.register_namespace("", NAMESPACE)
    root = ElementTree.fromstring(ENTITY.sub(lambda match: html.unescape(match[0]), formula))
    for each in [*root.iter(tag("munderover"))]:
        base, index, accent = each
        if accent.text in ACCENTS:
            letter = ElementTree.Element(tag("mover"), accent="true")
            letter.extend([base, accent])
            each.tag, each[:] = tag("msub"), [letter, index]
    for each in [*root.iter(tag("msup"))]:  # an index and a power stand above each other
        base, power = each
        if base.tag == tag("msub") and base[0].tag == tag("mover"):
            each.tag, each[:] = tag("msubsup"), [*base, power]
    for each in [*root.iter(tag("mover"))]:
        base, accent = each
        if accent.text in ACCENTS and base.tag == tag("mi") and len(base.text or "") == 1:
            each.attrib = {"style": "font-style: italic"}
            each.tag, each.text, each[:] = tag("mi"), base.text + ACCENTS[accent.text], []
    return ElementTree.tostring(root, encoding="unicode")


def mathml(node: nodes.Node, *, block: bool) -> str:
    """Translate a formula; what the translator does not know is a warning, and stays as it is."""
    text = UNKNOWN.sub(lambda match: INSTEAD[match[0]], node.astext())
    if block and r"\\" in text and r"\begin" not in text:
        text = rf"\begin{{aligned}}{text}\end{{aligned}}"
    try:
        return accented(tex2mathml(text, as_block=block))
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
