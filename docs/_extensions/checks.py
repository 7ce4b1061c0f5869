"""A directive for the table of all checks, made from the catalogue."""

import html
import re

from sphinx.util.docutils import SphinxDirective


def limits(check):
    """Where note, caution and alarm begin, in words."""
    side = "below" if check.below else "from"
    found = {name: getattr(check, name) for name in ("note", "caution", "alarm")}
    if found["note"] == found["caution"]:
        del found["note"]
    listed = [f"{name} {side} {limit:g}" for name, limit in found.items() if limit is not None]
    return ", ".join(listed)


def number(check):
    """What the number is, or what it means where that says more than a definition of one word."""
    defined = check.definition if " " in check.definition else check.meaning
    return re.sub(r"{\w+}", "…", defined.replace("{share}", "Some"))


def table():
    """An HTML table: the question of each check, its number, its limits."""
    from decoupled_descent.evaluation.checks.catalogue import CHECKS
    from decoupled_descent.evaluation.checks.of_evaluations import OF_EVALUATIONS
    from decoupled_descent.evaluation.checks.table_checks import TABLE_CHECKS

    checks = {check.name: check for check in (*CHECKS, *OF_EVALUATIONS, *TABLE_CHECKS)}
    cells = [
        (
            f"<b>{html.escape(check.name)}</b><br>{html.escape(check.question)}",
            html.escape(number(check)),
            limits(check),
        )
        for check in checks.values()
    ]
    body = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
    head = "".join(
        f"<th><p>{title}</p></th>" for title in ("check", "what the number is", "limits")
    )
    return (
        f'<div class="table-wrapper"><table class="docutils"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )


def setup(app):
    from docutils import nodes

    class Checks(SphinxDirective):
        """``checks``: every check of the catalogue, with its limits."""

        def run(self):
            return [nodes.raw("", table(), format="html")]

    app.add_directive("checks", Checks)
    return {"parallel_read_safe": True}
