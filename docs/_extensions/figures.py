"""Figures of ``run.plot()`` and the like for the gallery: they are not known to pyplot."""

from weakref import WeakSet

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

#: Figures that a page has already.
SHOWN: WeakSet[Figure] = WeakSet()


def scrape(_block, block_vars, gallery_conf) -> str:
    """Save the figures that an example has made without pyplot, each once."""
    saved = []
    for value in block_vars["example_globals"].values():
        if isinstance(value, Figure) and not hasattr(value, "number") and value not in SHOWN:
            saved.append(next(block_vars["image_path_iterator"]))
            value.savefig(saved[-1])
            SHOWN.add(value)
    return figure_rst(saved, gallery_conf["src_dir"])


def _get_sg_image_scraper():
    return scrape
