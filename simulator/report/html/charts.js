// Charts of the report: drawn from the JSON beside each still picture, which they replace.
// Drag to zoom, double-click to see all again; arrow keys move the cursor, + - 0 zoom.

const NS = "http://www.w3.org/2000/svg";
const EDGE = { left: 64, right: 14, top: 26, bottom: 34, between: 22 };
const LEAST_ZOOM = 1e-5; // of the whole axis

function element(name, attributes, parent, text) {
  const made = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.appendChild(made);
  return made;
}

// What a series is at x: of a bar the one that covers x, else the last point reached.
function valueAt(series, x) {
  const k = lastAtOrBefore(series.x, x);
  if (series.kind === "bars") return k >= 0 && x < series.end[k] ? series.y[k] : 0;
  return k >= 0 ? series.y[k] : series.before ?? 0;
}

class Chart {
  constructor(figure) {
    this.data = JSON.parse(figure.querySelector("script").textContent);
    for (const panel of this.data.panels)
      for (const series of panel.series) {
        series.x ??= panel.x;
        series.end ??= panel.end;
      }
    this.whole = [this.data.x.min, this.data.x.max];
    this.shown = [...this.whole];
    this.cursor = null;
    this.frame = document.createElement("div");
    this.frame.className = "drawn";
    this.readout = document.createElement("output");
    this.svg = element("svg", {
      tabindex: 0, role: "application", "aria-roledescription": "interactive chart",
      "aria-label": `${figure.querySelector("figcaption").textContent} Arrow keys read values, ` +
        "plus and minus zoom, 0 shows all.",
    });
    this.frame.append(this.buttons(), this.svg, this.readout);
    figure.querySelector(".still").replaceWith(this.frame);
    this.listen();
    new ResizeObserver(() => this.draw()).observe(this.frame);
    this.draw();
  }

  buttons() {
    const bar = document.createElement("div");
    bar.className = "zoom";
    for (const [sign, name, act] of [
      ["+", "Zoom in", () => this.zoom(0.5)],
      ["−", "Zoom out", () => this.zoom(2)],
      ["all", "Show all", () => this.show(...this.whole)],
    ]) {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = sign;
      button.title = name;
      button.setAttribute("aria-label", name);
      button.addEventListener("click", act);
      bar.appendChild(button);
    }
    return bar;
  }

  listen() {
    let from = null;
    this.svg.addEventListener("pointerdown", (event) => {
      from = this.shareOf(event);
      this.svg.setPointerCapture(event.pointerId);
    });
    this.svg.addEventListener("pointermove", (event) => {
      this.point(this.shareOf(event), from);
    });
    this.svg.addEventListener("pointerup", (event) => {
      const [a, b] = [from, this.shareOf(event)].sort((p, q) => p - q);
      from = null;
      if (b - a > 0.01) this.show(this.x.value(a), this.x.value(b));
      else this.point(b, null);
    });
    this.svg.addEventListener("pointercancel", () => { from = null; });
    this.svg.addEventListener("pointerleave", () => { if (from === null) this.leave(); });
    this.svg.addEventListener("dblclick", () => this.show(...this.whole));
    this.svg.addEventListener("keydown", (event) => {
      const step = event.shiftKey ? 0.1 : 0.01;
      const acts = {
        ArrowLeft: () => this.point((this.cursor ?? 0.5) - step, null),
        ArrowRight: () => this.point((this.cursor ?? 0.5) + step, null),
        "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2),
        0: () => this.show(...this.whole), Escape: () => this.leave(),
      };
      if (!(event.key in acts) || event.ctrlKey || event.metaKey || event.altKey) return;
      event.preventDefault();
      acts[event.key]();
    });
  }

  shareOf(event) {
    const box = this.svg.getBoundingClientRect();
    const inside = (event.clientX - box.left - EDGE.left) / (box.width - EDGE.left - EDGE.right);
    return Math.min(Math.max(inside, 0), 1);
  }

  // Zooming works on the axis as drawn, so that a logarithmic one zooms by factors.
  zoom(factor) {
    const middle = this.cursor ?? 0.5;
    const [low, high] = [middle - middle * factor, middle + (1 - middle) * factor];
    this.show(this.x.value(low), this.x.value(high));
  }

  show(from, to) {
    const whole = axis(this.data.x, ...this.whole);
    const [low, high] = [Math.max(whole.at(from), 0), Math.min(whole.at(to), 1)];
    if (!(high - low > LEAST_ZOOM)) return;
    this.shown = low === 0 && high === 1 ? [...this.whole] : [whole.value(low), whole.value(high)];
    this.leave();
    this.draw();
  }

  draw() {
    const width = Math.max(this.frame.clientWidth, 200);
    const heights = this.data.panels.map((panel) => panel.height);
    const height = EDGE.bottom + heights.reduce((sum, h) => sum + h + EDGE.top, 0) +
      EDGE.between * (heights.length - 1);
    this.svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.svg.replaceChildren();
    this.width = width - EDGE.left - EDGE.right;
    this.height = height;
    this.x = axis(this.data.x, ...this.shown);
    let top = EDGE.top;
    for (const panel of this.data.panels) {
      this.drawPanel(panel, top);
      top += panel.height + EDGE.top + EDGE.between;
    }
    const ground = height - EDGE.bottom;
    for (const tick of this.x.ticks(this.width / 90))
      element("text", { x: this.left(this.x.at(tick)), y: ground + 16, class: "tick middle" },
        this.svg, this.x.format(tick));
    element("text", { x: EDGE.left + this.width / 2, y: height - 3, class: "label middle" },
      this.svg, this.data.x.label);
    this.span = element("rect", { class: "span", y: 0, height: ground, width: 0 }, this.svg);
    this.line = element("line", { class: "cursor", y1: 0, y2: ground, visibility: "hidden" },
      this.svg);
    this.rest();
  }

  left(share) {
    return EDGE.left + share * this.width;
  }

  drawPanel(panel, top) {
    const y = axis(panel.y, panel.y.min, panel.y.max);
    const down = (value) =>
      top + panel.height * (1 - Math.min(Math.max(y.at(Math.max(value, 1e-12)), -0.1), 1));
    element("text", { x: 0, y: top - 10, class: "title" }, this.svg, panel.title);
    for (const tick of panel.y.ticks ?? y.ticks(Math.max(panel.height / 36, 2.5))) {
      element("line", { class: "grid", x1: EDGE.left, x2: EDGE.left + this.width, y1: down(tick),
        y2: down(tick) }, this.svg);
      element("text", { x: EDGE.left - 6, y: down(tick) + 4, class: "tick end" }, this.svg,
        y.format(tick));
    }
    const window = element("svg", { x: EDGE.left, y: top, width: this.width,
      height: panel.height, overflow: "hidden",
      viewBox: `${EDGE.left} ${top} ${this.width} ${panel.height}` }, this.svg);
    const floor = [];
    for (const series of panel.series) {
      const path = series.kind === "bars" ? this.bars(series, floor, down)
        : this.curve(series, down);
      const paint = series.kind === "line" ? { fill: "none", stroke: series.colour }
        : { fill: series.colour, stroke: "none" };
      element("path", { d: path, class: series.kind, ...paint }, window);
    }
  }

  // Bars of steps, stacked on those of the series before: `floor` is how high they reach.
  bars(series, floor, down) {
    const parts = [];
    const first = Math.max(lastAtOrBefore(series.x, this.shown[0]), 0);
    for (let k = first; k < series.x.length && series.x[k] < this.shown[1]; k++) {
      const low = floor[k] ?? 0;
      floor[k] = low + series.y[k];
      if (series.y[k] === 0) continue;
      const [a, b] = [this.left(this.x.at(series.x[k])), this.left(this.x.at(series.end[k]))];
      parts.push(`M${a.toFixed(2)} ${down(low).toFixed(1)}V${down(floor[k]).toFixed(1)}` +
        `H${b.toFixed(2)}V${down(low).toFixed(1)}Z`);
    }
    return parts.join("");
  }

  // A line through points, or the area below it; each value holds until the next.
  curve(series, down) {
    const first = Math.max(lastAtOrBefore(series.x, this.shown[0]), 0);
    let path = "";
    for (let k = first; k < series.x.length; k++) {
      const x = this.left(this.x.at(Math.max(series.x[k], this.data.x.min))).toFixed(2);
      const y = down(series.y[k]).toFixed(1);
      path += path === "" ? `M${x} ${series.kind === "area" ? `${down(0).toFixed(1)}V${y}` : y}`
        : `H${x}V${y}`;
      if (series.x[k] > this.shown[1]) break;
    }
    return series.kind === "area" && path ? `${path}V${down(0).toFixed(1)}Z` : path;
  }

  point(share, from) {
    this.cursor = Math.min(Math.max(share, 0), 1);
    const x = this.x.value(this.cursor);
    for (const end of ["x1", "x2"]) this.line.setAttribute(end, this.left(this.cursor));
    this.line.setAttribute("visibility", "visible");
    const [a, b] = from === null ? [0, 0] : [from, this.cursor].sort((p, q) => p - q);
    this.span.setAttribute("x", this.left(a));
    this.span.setAttribute("width", (b - a) * this.width);
    this.say(this.x.format(x), (panel, series) =>
      FORMATS[series.format ?? panel.y.format](valueAt(series, x)));
  }

  leave() {
    this.cursor = null;
    this.line.setAttribute("visibility", "hidden");
    this.span.setAttribute("width", 0);
    this.rest();
  }

  rest() {
    this.say("", () => "");
  }

  // The legend, which shows the values at the cursor.
  say(where, value) {
    this.readout.replaceChildren();
    const add = (text, name) => {
      const part = document.createElement("span");
      part.className = name;
      part.textContent = text;
      this.readout.appendChild(part);
      return part;
    };
    if (where) add(where, "where");
    for (const panel of this.data.panels)
      for (const series of panel.series) {
        const part = add(`${series.name} ${value(panel, series)}`.trim(), "entry");
        const patch = document.createElement("i");
        patch.style.background = series.colour;
        part.prepend(patch);
      }
  }
}

for (const figure of document.querySelectorAll("figure.chart")) new Chart(figure);
addEventListener("beforeprint", () => {
  for (const details of document.querySelectorAll("details")) details.open = true;
});
