"""report.html, and what a browser makes of it."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from browser import needs_chromium, show

from simulator import Scenario, simulate
from simulator.report.html import html_page
from simulator.report.html.data import BINS
from simulator.report.plots.series import averages
from simulator.report.plots.style import DECODE

# What a reader does: move the cursor of the second chart, zoom into the first.
HANDS = """<script>
const press = (chart, key) => document.querySelectorAll(".drawn svg[tabindex]")[chart]
  .dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
press(1, "ArrowRight");
press(0, "+");
press(0, "+");
</script>"""


@pytest.fixture(scope="module")
def result():
    return simulate(Scenario.from_yaml("seed-linear", ["workload.num_requests=200"]))


@pytest.fixture(scope="module")
def page(result):
    return html_page(result)


class Outline(HTMLParser):
    """Headings in order, ids, and what refers to them."""

    def __init__(self):
        super().__init__()
        self.headings, self.ids, self.references = [], [], []

    def handle_starttag(self, tag, attributes):
        named = dict(attributes)
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(tag)
        if "id" in named:
            self.ids.append(named["id"])
        self.references.append(named.get("aria-labelledby"))


def test_page_is_well_built_for_those_who_do_not_see_it(page):
    outline = Outline()
    outline.feed(page)
    assert outline.headings[0] == "h1"
    assert set(outline.headings[1:]) == {"h2"}
    assert len(outline.ids) == len(set(outline.ids))
    assert {r for r in outline.references if r} <= set(outline.ids)
    assert page.count('<svg role="img" aria-label="') == page.count("<figure") == 5
    assert page.count("<caption>") == page.count("<table>")
    assert '<html lang="en">' in page


def test_page_needs_nothing_from_elsewhere(page):
    assert "default-src 'none'" in page
    assert not re.findall(r"(?:src|href)=\"(?!data:|#)", page.replace("xlink:href", "href"))


def test_chart_data_are_the_runs(result, page):
    load = [json.loads(text) for text in re.findall(r'json">(.*?)</script>', page)][1]
    running, _waiting = load["panels"][0]["series"]
    edges = np.linspace(0, result.recording.end_s, BINS + 1)
    steps = result.recording.steps
    expected = averages(steps, edges, {"running": steps.running})["running"]
    assert running["y"] == pytest.approx(expected, rel=1e-5)


def test_text_from_outside_cannot_become_part_of_the_script(result):
    name = "</script><script>alert(1)</script>"
    classes = "workload.classes=[{name: <b>, share: 1.0}]"
    renamed = Scenario.from_yaml(
        "seed-linear", ["workload.num_requests=20", f"name={name}", classes]
    )
    text = html_page(simulate(renamed))
    assert "<script>alert" not in text
    assert "<b>" not in text
    assert text.count("&lt;/script&gt;&lt;script&gt;alert(1)") >= 2


@needs_chromium
def test_in_a_browser(result, page, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(page.replace("</body>", HANDS + "</body>"), "utf-8")
    shown = show(path)
    assert shown.console == []
    # The script has put a chart in place of each picture, with lines in it.
    charts = re.findall(r'<div class="drawn">.*?</output>', shown.dom, flags=re.S)
    assert len(charts) == 4
    assert shown.dom.count('class="still"') == 1  # what latency went to stays a picture
    assert all(re.search(r'<path d="M[^"]{40,}', chart) for chart in charts)
    # The cursor of the second stands just right of its middle, and reads the value there.
    reading = re.search(r'"where">([\d,.]+) s</span>.*?running ([\d,.]+)<', charts[1])
    time_s, running = reading.groups()
    assert float(time_s) == pytest.approx(0.51 * result.recording.end_s, abs=1e-3)
    edges = np.linspace(0, result.recording.end_s, BINS + 1)
    steps = result.recording.steps
    bins = averages(steps, edges, {"running": steps.running})["running"]
    beside = bins[[int(0.51 * BINS) - 1, int(0.51 * BINS)]]  # it stands on their edge
    assert np.abs(beside - float(running)).min() <= 0.05 + 1e-9  # one decimal
    # The first shows a quarter of its time.
    ticks = [float(t) for t in re.findall(r'tick middle">([\d,.]+) s<', charts[0])]
    whole = json.loads(re.search(r'json">(.*?)</script>', page).group(1))["x"]
    assert 0 < max(ticks) - min(ticks) <= (whole["max"] - whole["min"]) / 4 + 1e-9
    # Not blank: white paper, and the blue of decoding seats.
    assert (shown.pixels == 255).all(axis=2).mean() > 0.5
    blue = [int(DECODE[i : i + 2], 16) for i in (1, 3, 5)]
    assert (shown.pixels == blue).all(axis=2).sum() > 10_000


@needs_chromium
def test_dark_and_narrow(page, tmp_path):
    path = tmp_path / "report.html"
    wide = """<script>console.error("wide", document.documentElement.scrollWidth)</script>"""
    path.write_text(page.replace("</body>", wide + "</body>"), "utf-8")
    shown = show(path, width=500, dark=True)
    assert np.median(shown.pixels) < 40
    # A console message is seen, and nothing is wider than the window.
    assert len(shown.console) == 1
    assert '"wide 500"' in shown.console[0]
