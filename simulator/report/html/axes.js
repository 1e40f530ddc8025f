// Axes of the report's charts: from values to places and back, ticks, and how values are written.
"use strict";

const FORMATS = {
  number: (v) => v.toLocaleString("en", { maximumSignificantDigits: 4 }),
  count: (v) => v.toLocaleString("en", { maximumFractionDigits: 1 }),
  percent: (v) => `${v.toLocaleString("en", { maximumSignificantDigits: 3 })} %`,
  share: (v) => `${(v * 100).toLocaleString("en", { maximumSignificantDigits: 3 })} %`,
  clock: (v) => `${v.toLocaleString("en", { maximumFractionDigits: 3 })} s`,
  seconds: (v) =>
    v < 1e-3 ? `${+(v * 1e6).toPrecision(3)} µs`
    : v < 1 ? `${+(v * 1e3).toPrecision(3)} ms`
    : v < 600 ? `${+v.toPrecision(3)} s`
    : `${Math.round(v / 60)} min`,
};

// An axis maps values to [0, 1] and back, and knows where its ticks are.
function axis(spec, from, to) {
  const log = spec.scale === "log";
  const forth = log ? Math.log10 : (v) => v;
  const back = log ? (v) => 10 ** v : (v) => v;
  const [low, high] = [forth(from), forth(to)];
  return {
    at: (v) => (forth(v) - low) / (high - low),
    value: (share) => back(low + share * (high - low)),
    ticks: (wanted) => (log ? logTicks(low, high, wanted) : evenTicks(low, high, wanted, spec.format)),
    format: FORMATS[spec.format],
  };
}

function evenTicks(low, high, wanted, format) {
  const rough = (high - low) / Math.max(wanted, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const even = power * ([1, 2, 5].find((f) => f * power >= rough) ?? 10);
  const step = format === "count" ? Math.max(even, 1) : even; // no half requests
  const ticks = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-9; k++)
    ticks.push(+(k * step).toPrecision(12));
  return ticks;
}

function logTicks(low, high, wanted) {
  const factors = high - low < 1.2 ? [1, 2, 5] : high - low < 2.5 ? [1, 3] : [1];
  const every = Math.max(1, Math.ceil((high - low) / Math.max(wanted, 2)));
  const ticks = [];
  for (let power = Math.floor(low); power <= high + 1e-9; power += every)
    for (const factor of factors) {
      const value = factor * 10 ** power;
      if (Math.log10(value) >= low - 1e-9 && Math.log10(value) <= high + 1e-9) ticks.push(value);
    }
  return ticks;
}

// Last index with x[index] <= value, or -1.
function lastAtOrBefore(x, value) {
  let low = 0, high = x.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (x[middle] <= value) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}
