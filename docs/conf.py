"""The site: ``make docs`` builds it into docs/_build/html. Nothing is fetched from the network."""

import os
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_extensions")]
os.environ.setdefault("OMP_NUM_THREADS", "2")

import decoupled_descent as dd

project = "decoupled-descent"
author = copyright = "The decoupled-descent authors"
version = release = dd.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "checks",
    "codemap",
    "indices",
    "mathml",
    "names",
    "reference",
]
exclude_patterns = ["_build", "gallery/**", "auto_examples/**.ipynb", "auto_examples/**.py"]
nitpicky = True
# Annotations name classes of torch, numpy and of our own inner modules, which have no page.
nitpick_ignore_regex = [("py:(class|mod|exc|data)", ".*")]

myst_enable_extensions = ["dollarmath", "colon_fence"]
myst_dmath_allow_digits = False  # "$1,234.50" in a table is a sum of money
myst_heading_anchors = 3
html_math_renderer = "mathml"  # no JavaScript, so formulas need no network

autodoc_typehints_format = "short"
autodoc_member_order = "bysource"
napoleon_numpy_docstring = False
napoleon_use_ivar = True
strip_signature_backslash = True  # napoleon keeps the last _ of attributes such as classes_

html_theme = "furo"
html_title = f"decoupled-descent {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_search_scorer = str(HERE / "_extensions" / "scorer.js")
html_show_sphinx = False
html_copy_source = False

sphinx_gallery_conf = {
    "examples_dirs": "gallery",
    "gallery_dirs": "auto_examples",
    "filename_pattern": r"/\d\d_",
    "within_subsection_order": "FileNameSortKey",
    "image_scrapers": ("matplotlib", "figures"),
    "ignore_repr_types": r"matplotlib\..*|.*NotebookFigure",
    "matplotlib_animations": False,
    "download_all_examples": False,
    "show_memory": False,
    "min_reported_time": 1,
    "remove_config_comments": True,
    "abort_on_example_error": True,
    "write_computation_times": False,
    "show_signature": False,
}
