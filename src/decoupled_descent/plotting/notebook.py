"""Figures that notebooks display; of figures made without pyplot they show only a line of text."""

from __future__ import annotations

from io import BytesIO

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A figure that is shown as the last line of a cell, whether pyplot is imported or not."""

    def _repr_png_(self) -> bytes:
        """Draw it, for notebooks."""
        buffer = BytesIO()
        self.savefig(buffer, format="png")
        return buffer.getvalue()
