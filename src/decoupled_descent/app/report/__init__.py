"""``report.html``: one self-contained page about a trained model."""

from decoupled_descent.app.report.data import ReportData
from decoupled_descent.app.report.page import render_report, write_report

__all__ = ["ReportData", "render_report", "write_report"]
