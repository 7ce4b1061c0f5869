"""``report.html``: one self-contained page about a trained model.

The page and what draws it are imported when they are needed: commands that print use the data and
the words of a report only.
"""

from typing import Any

from decoupled_descent.app.report.data import ReportData

__all__ = ["ReportData", "render_report", "write_report"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from decoupled_descent.app.report import page

    return getattr(page, name)
