"""Names of the library in the text of pages, such as ``dd.fit``, lead to the reference."""

import re

import decoupled_descent as dd

#: ``dd.fit``, ``dd.theory.fixed_point(theory)``, ``dd.Rows(X, y)``: the name, without what follows.
NAME = re.compile(r"^dd\.(\w+(?:\.\w+)*)(?:\(.*\))?$", re.DOTALL)


def named(text: str) -> str | None:
    """The full name of what a piece of code names, or nothing."""
    match = NAME.match(text)
    return f"{dd.__name__}.{match[1]}" if match else None


def setup(app):
    from docutils import nodes
    from sphinx.transforms.post_transforms import SphinxPostTransform

    class Names(SphinxPostTransform):
        """Put links around names that have an entry in the reference."""

        default_priority = 20

        def run(self, **_kwargs):
            entries = self.env.domains["py"].objects
            for literal in list(self.document.findall(nodes.literal)):
                entry = entries.get(named(literal.astext()) or "")
                inside = isinstance(literal.parent, nodes.reference)
                if entry is None or inside or entry.docname == self.env.docname:
                    continue
                uri = self.app.builder.get_relative_uri(self.env.docname, entry.docname)
                link = nodes.reference("", "", internal=True, refuri=f"{uri}#{entry.node_id}")
                literal.replace_self(link)
                link.append(literal)

    app.add_post_transform(Names)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
