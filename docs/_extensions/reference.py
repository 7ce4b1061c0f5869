"""The reference: one page per public name, one per public module, written from the package itself.

Names, order and headings are those of the tables in ``decoupled_descent/__init__.py``.
After the build every public name must have an entry; a missing one is a warning, so an error.
Sphinx is imported where it is needed only, so that the tests can do without.
"""

import inspect
import re
import sys
from functools import cache
from pathlib import Path
from types import ModuleType

import decoupled_descent as dd

PACKAGE = "decoupled_descent"
#: A link from source code to the reference: what comes before, the page, the name.
BACK = re.compile(
    rf'(class="viewcode-back" href="[^"]*/reference/)([^"/]+)\.html#{PACKAGE}\.([\w.]+)'
)


def groups(table: str) -> dict[str, list[str]]:
    """The names of a table of the package, ``_NAMES`` or ``_MODULES``, by the comment above."""
    source = inspect.getsource(dd)
    lines = source.split(f"\n{table} = {{\n")[1].split("\n}")[0].splitlines()
    found: dict[str, list[str]] = {}
    for line in map(str.strip, lines):
        if line.startswith("#"):
            heading = line.removeprefix("#").strip()
            found[heading[0].upper() + heading[1:]] = []
        else:
            found[next(reversed(found))].append(line.split('"')[1])
    return found


def own_names(module: ModuleType) -> list[str]:
    """The public names of a module: what it lists, else the classes and functions it defines."""
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        name
        for name, value in vars(module).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == module.__name__
        if inspect.isclass(value) or inspect.isfunction(value)
    )


@cache
def entries() -> dict[str, object]:
    """Every public name as users write it after ``decoupled_descent.``, and what it is.

    What is there under two names (``dd.GaussianMixture``, ``dd.mixtures.GaussianMixture``) has its
    entry under the first.
    """
    found = {name: getattr(dd, name) for name in dd._NAMES}
    for module in dd._MODULES:
        for name in own_names(getattr(dd, module)):
            value = getattr(getattr(dd, module), name)
            if not inspect.ismodule(value) and not any(value is other for other in found.values()):
                found[f"{module}.{name}"] = value
    return found


def home(value: object) -> str | None:
    """The name under which the reference has an object."""
    return next((name for name, other in entries().items() if other is value), None)


def kind(value: object) -> str:
    """What a directive of autodoc calls it."""
    if inspect.isclass(value):
        return "exception" if issubclass(value, BaseException) else "class"
    return "function" if callable(value) else "data"


def directive(name: str, value: object) -> str:
    """The entry of a name."""
    options = "   :members:\n   :inherited-members:\n" if inspect.isclass(value) else ""
    return f".. auto{kind(value)}:: {PACKAGE}.{name}\n{options}"


def role(name: str, value: object) -> str:
    """A link to an entry."""
    tag = {"class": "class", "exception": "exc", "function": "func", "data": "data"}[kind(value)]
    return f":py:{tag}:`dd.{name} <{PACKAGE}.{name}>`"


def first_line(value: object) -> str:
    """What a name is, in the first sentence of its docstring."""
    return (inspect.getdoc(value) or "").split("\n\n")[0].replace("\n", " ").strip()


def title(text: str) -> str:
    return f"{text}\n{'=' * len(text)}\n"


def table(rows: list[tuple[str, str]]) -> str:
    lines = [".. list-table::", "   :widths: 35 65", ""]
    for left, right in rows:
        lines += [f"   * - {left}", f"     - {right}"]
    return "\n".join(lines) + "\n"


def page(name: str) -> str:
    """The file of a name: classes and functions differ where file systems do not tell S from s."""
    return f"{kind(getattr(dd, name))}-{name}"


def module_page(name: str) -> str:
    """The page of a public module: what it says of itself, and all of its names."""
    module = getattr(dd, name)
    parts = [title(f"dd.{name}"), f".. automodule:: {PACKAGE}.{name}\n"]
    elsewhere, here = [], []
    for each in own_names(module):
        value = getattr(module, each)
        if inspect.ismodule(value):
            elsewhere.append((f":doc:`dd.{each} <module-{each}>`", first_line(value)))
        elif (known := home(value)) == f"{name}.{each}":
            here.append((known, value))
        elif known is not None:
            elsewhere.append((role(known, value), first_line(value)))
    parts.append(table([(role(*each), first_line(each[1])) for each in here]) if here else "")
    parts += [directive(*each) for each in here]
    if elsewhere:
        parts += [".. rubric:: Described elsewhere\n", table(elsewhere)]
    return "\n".join(parts)


def pages() -> dict[str, str]:
    """All pages of the reference: name of the file, text."""
    index = [
        title("Reference"),
        "Every public name, as one writes it after ``import decoupled_descent as dd``. The text is "
        "that of the docstrings.\n",
    ]
    files, found = [], {}
    for heading, names in groups("_NAMES").items():
        index += [f"{heading}\n{'-' * len(heading)}\n"]
        index += [table([(role(n, getattr(dd, n)), first_line(getattr(dd, n))) for n in names])]
        for name in names:
            files.append((f"dd.{name}", page(name)))
            found[page(name)] = title(f"dd.{name}") + "\n" + directive(name, getattr(dd, name))
    for heading, names in groups("_MODULES").items():
        index += [f"{heading}\n{'-' * len(heading)}\n"]
        rows = [(f":doc:`dd.{n} <module-{n}>`", first_line(getattr(dd, n))) for n in names]
        index += [table(rows)]
        for name in names:
            files.append((f"dd.{name}", f"module-{name}"))
            found[f"module-{name}"] = module_page(name)
    index += [".. toctree::", "   :hidden:", ""]
    index += [f"   {text} <{file}>" for text, file in files]
    return {"index": "\n".join(index) + "\n"} | found


def write_pages(app) -> None:
    """Write the pages, those that changed only, and remove those of names that are gone."""
    folder = Path(app.srcdir, "reference")
    folder.mkdir(exist_ok=True)
    for module in dd._MODULES:  # dd.heads is a name for decoupled_descent.objective.heads
        sys.modules.setdefault(f"{PACKAGE}.{module}", getattr(dd, module))
    texts = pages()
    for name, text in texts.items():
        path = folder / f"{name}.rst"
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for path in folder.glob("*.rst"):
        if path.stem not in texts:
            path.unlink()


def resolve(app, env, node, contnode):
    """Find what docstrings call by its name alone, or by the module that defines it."""
    from docutils import nodes

    if node.get("refdomain") != "py":
        return None
    last = re.sub(r"^[~.]+", "", node["reftarget"]).split(".")
    objects = env.domains["py"].objects
    for size in (2, 1):
        tail = ".".join(last[-size:])
        for name in (tail, *(f"{module}.{tail}" for module in dd._MODULES)):
            if (entry := objects.get(f"{PACKAGE}.{name}")) is not None:
                uri = app.builder.get_relative_uri(node["refdoc"], entry.docname)
                link = nodes.reference("", "", internal=True, refuri=f"{uri}#{entry.node_id}")
                link.append(contnode)
                return link
    return None


def right_anchor(match: re.Match[str]) -> str:
    """The link from source code to the reference, with the anchor that its page has."""
    page, parts = match[2], match[3].split(".")
    name = parts[1:] if parts[0] in dd._MODULES and len(parts) > 1 else parts
    module = [page.removeprefix("module-")] if page.startswith("module-") else []
    return f"{match[1]}{page}.html#{'.'.join([PACKAGE, *module, *name])}"


def right_anchors(_app, page, _template, context, _doctree) -> None:
    """Correct links on pages of source code.

    Sphinx gives all links of a file the module that it saw first. ``dd.GaussianMixture`` and
    ``dd.mixtures.xor`` are defined in one file, but their anchors differ.
    """
    if page.startswith("_modules/"):
        context["body"] = BACK.sub(right_anchor, context["body"])


def skip_foreign(_app, _what, _name, member, skip, _options):
    """Leave out what classes inherit from torch, scikit-learn and Python itself."""
    function = getattr(member, "fget", getattr(member, "__func__", member))
    if inspect.ismethoddescriptor(function) and not hasattr(function, "__module__"):
        return True
    module = getattr(function, "__module__", None) if callable(function) else None
    return True if module is not None and not module.startswith(PACKAGE) else skip


def check_complete(_app, env) -> None:
    """Warn of public names without an entry."""
    from sphinx.util import logging

    logger, known = logging.getLogger(__name__), env.domains["py"].objects
    for name in entries():
        if f"{PACKAGE}.{name}" not in known:
            logger.warning("the public name dd.%s has no entry in the reference", name)


def setup(app):
    app.connect("builder-inited", write_pages)
    app.connect("missing-reference", resolve)
    app.connect("html-page-context", right_anchors)
    app.connect("autodoc-skip-member", skip_foreign)
    app.connect("env-check-consistency", check_complete)
    return {"parallel_read_safe": True}
