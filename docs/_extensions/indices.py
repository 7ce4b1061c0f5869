"""Formulas in the text of pages: ``x_i`` and ``n^{−1/2}`` are set with indices and powers.

A number and its standard error, and a number and its per cent, stay on one line.
"""

import re

#: What may have an index: a letter with its accents, a nabla, a closing bracket, and three words. A
#: Latin letter stands alone: names of functions and arguments are no formulas.
BASE = (
    r"(?<![A-Za-z0-9_])(?:min|max|test|[A-Za-z][\u0300-\u036f]*['’]*)"
    r"|[^\W\dA-Za-z_][\u0300-\u036f]*['’]*|[∇∂)\]‖]"
)
#: An index or a power: in braces, or a few letters and digits.
SCRIPT = r"[_^](?:\{[^{}]+\}|[−+]?[A-Za-z0-9]+(?:\.[0-9]+)?[∞*]?|[∞*])"
TERM = re.compile(rf"(?P<base>{BASE})(?P<scripts>(?:{SCRIPT})+)")

Piece = tuple[str, str]  # "text", "subscript" or "superscript", and what is written there


def joined(text: str) -> str:
    """Text in which "1.2 ± 0.1", "5 %" and "0.66 (0.02)" do not break."""
    return re.sub(r"(?<=\d) (?=±|%|\([\d.]+\))|(?<=±) (?=\d)", "\u00a0", text)


def pieces(text: str) -> list[Piece]:
    """Text as pieces, each with its place on the line."""
    found: list[Piece] = []
    end = 0
    for term in TERM.finditer(text):
        found.append(("text", text[end : term.start()] + term["base"]))
        for script in re.findall(SCRIPT, term["scripts"]):
            kind = "subscript" if script[0] == "_" else "superscript"
            found.append((kind, script[1:].strip("{}")))
        end = term.end()
    return [*found, ("text", text[end:])]


def setup(app):
    from docutils import nodes
    from sphinx import addnodes
    from sphinx.transforms.post_transforms import SphinxPostTransform

    #: Code and formulas are left as they are.
    exact = (
        nodes.literal, nodes.literal_block, nodes.doctest_block, nodes.math, nodes.math_block,
        nodes.raw, nodes.image, addnodes.literal_strong, addnodes.literal_emphasis,
        addnodes.desc_signature,
    )  # fmt: skip

    class Indices(SphinxPostTransform):
        """Replace pieces of text by nodes for indices and powers."""

        default_priority = 4  # before sphinx-gallery turns code into pieces of text

        def run(self, **_kwargs):
            for text in list(self.document.findall(nodes.Text)):
                if not set("_^±%(").intersection(text):
                    continue
                parent = text.parent
                while parent is not None and not isinstance(parent, exact):
                    parent = parent.parent
                if parent is None:
                    self.replace(text)

        def replace(self, text):
            nodes_ = [
                nodes.Text(part) if kind == "text" else getattr(nodes, kind)("", part)
                for kind, part in pieces(joined(text.astext()))
                if part
            ]
            text.parent.replace(text, nodes_)

    app.add_post_transform(Indices)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
