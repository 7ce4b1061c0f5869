"""A directive that draws the packages and what they import, from the imports of the sources.

An arrow that follows from others is left out: if A imports B and B imports C, then A → C says
nothing new about the order. The picture is an SVG in the colours of the page
(``_static/site.css``), narrow enough for a telephone.
"""

import ast
import html
from itertools import pairwise
from pathlib import Path

PACKAGE = "decoupled_descent"
Graph = dict[str, set[str]]
#: Small modules that any package may import; the text names them, arrows would only hide others.
TOOLS = {"checks", "files", "progress", "quiet", "tensor_file"}
#: Sizes in pixels: the picture, a box, the distance of levels, and the room an arrow needs.
WIDTH, BOX, HEIGHT, LEVEL, LANE = 370, 104, 38, 66, 10


def package(path: Path, root: Path) -> str:
    """The package of a file, or the module if it stands at the top."""
    return path.relative_to(root).with_suffix("").parts[0]


def imported(tree: ast.AST) -> set[str]:
    """The packages that code imports when it runs, inside functions too."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            found |= imported(ast.Module(node.orelse, []))
            continue
        names = [alias.name for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)]
        if isinstance(node, ast.ImportFrom):
            top = node.module == PACKAGE
            names = [f"{PACKAGE}.{name}" for name in names] if top else [node.module or ""]
        found |= {name.split(".")[1] for name in names if name.startswith(f"{PACKAGE}.")}
        found |= imported(node)
    return found


def graph(root: Path) -> Graph:
    """What each package of the sources imports from others."""
    found: Graph = {}
    for path in sorted(root.rglob("*.py")):
        if path != root / "__init__.py":  # it has the public names, of all packages
            name = package(path, root)
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found.setdefault(name, set()).update(imported(tree) - {name})
    return found


def behind(edges: Graph, name: str) -> set[str]:
    """All that a package needs, directly or through others."""
    return set().union(*({other} | behind(edges, other) for other in edges[name]))


def reduced(edges: Graph) -> Graph:
    """The arrows that do not follow from others."""
    return {
        name: {one for one in ones if not any(one in behind(edges, two) for two in ones)}
        for name, ones in edges.items()
    }


def levels(edges: Graph) -> dict[str, int]:
    """How far down each package stands: close above its users, at most three boxes in a row."""
    earliest: dict[str, int] = {}
    for name in sorted(edges, key=lambda name: (len(behind(edges, name)), name)):
        earliest[name] = 1 + max((earliest[other] for other in edges[name]), default=-1)
    last, found = max(earliest.values()), {}
    for name in sorted(edges, key=lambda name: (-earliest[name], name)):  # users come first
        latest = min((found[user] for user in edges if name in edges[user]), default=last + 1) - 1
        room = [
            level
            for level in range(latest, earliest[name] - 1, -1)
            if sum(other == level for other in found.values()) < 3
        ]
        found[name] = room[0] if room else latest
    return found


def rows(edges: Graph, depth: dict[str, int]) -> tuple[list[list], list[tuple]]:
    """Boxes and lanes of arrows, level by level in an order with few crossings; and the pieces."""
    table: list[list] = [[] for _ in range(max(depth.values()) + 1)]
    for name in sorted(edges):
        table[depth[name]].append(name)
    pieces = []
    for user in sorted(edges):
        for other in sorted(edges[user]):
            lanes = [(other, user, level) for level in range(depth[other] + 1, depth[user])]
            for lane in lanes:
                table[lane[2]].append(lane)
            chain = [other, *lanes, user]
            pieces += list(pairwise(chain))
    for turn in range(24):  # each element goes to the mean place of its neighbours, to and fro
        down = turn % 2 == 0
        order = range(1, len(table)) if down else range(len(table) - 2, -1, -1)
        for level in order:
            near = table[level - 1] if down else table[level + 1]
            place = {element: (k + 0.5) / len(near) for k, element in enumerate(near)}
            linked = {
                element: [place[a if down else b] for a, b in pieces if element == (b, a)[not down]]
                for element in table[level]
            }
            own = {element: (k + 0.5) / len(linked) for k, element in enumerate(table[level])}
            mean = {each: sum(at) / len(at) if at else own[each] for each, at in linked.items()}
            table[level].sort(key=mean.__getitem__)
    return table, pieces


def places(table: list[list]) -> dict:
    """Where the middle of each box or lane is."""
    found = {}
    for level, elements in enumerate(table):
        widths = [BOX if isinstance(each, str) else LANE for each in elements]
        gap = min(24, (WIDTH - sum(widths)) / (len(widths) + 1))
        x = (WIDTH - sum(widths) - gap * (len(widths) - 1)) / 2
        for each, width in zip(elements, widths, strict=True):
            found[each] = x + width / 2, level * LEVEL + HEIGHT / 2 + 2
            x += width + gap
    return found


def drawing(root: Path) -> str:
    """The picture, as SVG."""
    everything = graph(root)
    kept = {name: uses - TOOLS for name, uses in everything.items() if name not in TOOLS}
    edges = reduced(kept)
    table, pieces = rows(edges, levels(edges))
    at = places(table)
    parts = []
    for upper, lower in pieces:
        (x0, y0), (x1, y1) = at[upper], at[lower]
        arrives = isinstance(lower, str)
        y0, y1 = y0 + HEIGHT / 2, y1 - HEIGHT / 2 - 3 * arrives
        middle = (y0 + y1) / 2
        curve = f"M{x0:.0f} {y0:.0f}C{x0:.0f} {middle:.0f} {x1:.0f} {middle:.0f} {x1:.0f} {y1:.0f}"
        curve += "" if arrives else f"v{HEIGHT}"  # past the boxes of its level
        end = ' marker-end="url(#tip)"' if arrives else ""
        parts.append(f'<path d="{curve}"{end}/>')
    for name, (x, y) in at.items():
        if isinstance(name, str):
            files = [path for path in root.rglob("*.py") if package(path, root) == name]
            lines = sum(len(path.read_text(encoding="utf-8").splitlines()) for path in files)
            uses = ", ".join(sorted(everything[name])) or "nothing"
            parts.append(
                f"<g><title>{html.escape(f'{name} imports {uses}')}</title>"
                f'<rect x="{x - BOX / 2:.0f}" y="{y - HEIGHT / 2:.0f}" width="{BOX}"'
                f' height="{HEIGHT}" rx="6"/><text x="{x:.0f}" y="{y - 1:.0f}">{name}</text>'
                f'<text class="lines" x="{x:.0f}" y="{y + 12:.0f}">{lines:,} lines</text></g>'
            )
    tip = '<marker id="tip" orient="auto" markerWidth="7" markerHeight="7" refX="4" refY="3">'
    tip += '<path d="M0 0L6 3L0 6Z"/></marker>'
    height = LEVEL * (len(table) - 1) + HEIGHT + 4
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="codemap" viewBox="0 0 {WIDTH} {height}"'
        f' role="img" aria-label="The packages and what they import">'
        f"<defs>{tip}</defs>{''.join(parts)}</svg>"
    )


def setup(app):
    from docutils import nodes
    from sphinx.util.docutils import SphinxDirective

    class CodeMap(SphinxDirective):
        """``codemap``: the packages of the library, drawn from their imports."""

        def run(self):
            root = Path(self.env.srcdir).parent / "src" / PACKAGE
            for path in root.rglob("*.py"):
                self.env.note_dependency(str(path))
            return [nodes.raw("", drawing(root), format="html")]

    app.add_directive("codemap", CodeMap)
    return {"parallel_read_safe": True}
