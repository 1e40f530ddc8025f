"""report.html: a run as one page that needs no network."""

from simulator.report.html.page import html_page

__all__ = ["html_page"]
