"""A directive that lists the scripts of a folder, with what they ask and how they are run."""

import ast
from pathlib import Path

from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective


def written(paragraph: str) -> str:
    """A paragraph of a docstring, indented; one that is nothing but commands becomes code."""
    lines = [line.strip() for line in paragraph.splitlines()]
    if not lines[0].startswith("python "):
        return f"   {' '.join(lines)}\n"
    commands = " ".join(lines).replace(" python ", "\n      python ")
    return f"   .. code-block:: sh\n\n      {commands}\n"


class Studies(SphinxDirective):
    """``studies``: every script of docs/studies, what it asks, and how it is run."""

    def run(self):
        folder = Path(self.env.srcdir, "studies")
        lines = []
        for path in sorted(folder.glob("*.py")):
            self.env.note_dependency(str(path))
            text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
            first, *others = text.split("\n\n")
            kept = [written(part) for part in others if "python " in part]
            lines += [f"``docs/studies/{path.name}``", f"   {' '.join(first.split())}\n", *kept, ""]
        text = "\n".join(lines).split("\n")
        return self.parse_text_to_nodes(StringList(text, "studies"))


def setup(app):
    app.add_directive("studies", Studies)
    return {"parallel_read_safe": True}
