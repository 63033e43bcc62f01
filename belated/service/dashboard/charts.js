// uPlot as it is used here, and small drawings. Colours are those of the page, and follow light and dark.

import { count, duration, el, moment, number, say } from "./words.js";

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
const FONT = "12px system-ui, sans-serif";
const WHOLE = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((digit) => digit * 10 ** power)).flat();
const all = new Set();

/** Draw everything again, when the colours changed. */
export const repaint = () => all.forEach((chart) => chart.redraw(false));

const axis = (more) => ({
  stroke: () => colour("soft"),
  grid: { stroke: () => colour("grid"), width: 1 },
  ticks: { show: false },
  border: { show: false },
  font: FONT,
  ...more,
});

/** Marks of a time axis: the day where it begins, else hours and minutes, and seconds where they matter. */
function timeMarks(_, marks, axisNumber, space, step) {
  let before = null;
  return marks.map((at) => {
    const date = new Date(at * 1000);
    const today = date.toDateString();
    const midnight = step >= 86400 || (before != null && today !== before) || (step >= 3600 && date.getHours() === 0);
    before = today;
    return midnight ? calendar.format(date) : moment(at, 0).slice(0, step < 60 ? 8 : 5);
  });
}
const calendar = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" });

/** A uPlot in a box that fills its width. `options` are made when there is room for it. */
function plot(box, options, height) {
  let chart = null;
  let data = null;
  const make = () => {
    const width = box.clientWidth;
    if (!data || width < 50) return;
    if (chart) {
      chart.setData(data);
      return;
    }
    chart = new uPlot({ width, height, ...options }, data, box);
    all.add(chart);
  };
  const watch = new ResizeObserver(() => (chart ? chart.setSize({ width: box.clientWidth, height }) : make()));
  watch.observe(box);
  return {
    set(columns) {
      data = columns;
      make();
    },
    close() {
      watch.disconnect();
      if (chart) {
        all.delete(chart);
        chart.destroy();
      }
    },
  };
}

/** A figure with a heading, a legend, a drawing, and what it shows in words. */
export function figure(title, help) {
  const legend = el("div", { class: "legend" });
  const box = el("div", { class: "chart", role: "img", "aria-label": title });
  const empty = el("p", { class: "quiet nothing", text: "Nothing to draw yet." });
  const node = el("figure", { class: "card" }, el("div", { class: "head" }, el("h2", { text: title }), legend), box, empty, el("figcaption", { text: help }));
  return {
    node,
    box,
    legend,
    describe(text) {
      box.setAttribute("aria-label", text);
    },
    show(any) {
      box.hidden = !any;
      empty.hidden = any;
    },
  };
}

/** Lines over time. Each is {label, colour, fill, dash, steps}; the legend follows the cursor. */
export function lines(title, help, drawn, format = count) {
  const frame = figure(title, help);
  const time = el("span", { class: "time" });
  const values = drawn.map(() => el("b"));
  frame.legend.append(
    time,
    ...drawn.map((line, i) => el("span", { class: `key ${line.colour}${line.dash ? " dashed" : ""}` }, `${line.label} `, values[i])),
  );
  let shown = null;
  const legend = (index) => {
    if (!shown) return;
    const [at] = shown;
    const last = at.length - 1;
    const here = index == null ? last : index;
    say(time, index == null ? "" : moment(at[here], at[last] - at[0]));
    values.forEach((value, i) => say(value, format(shown[i + 1][here])));
  };
  const chart = plot(
    frame.box,
    {
      padding: [10, 6, 0, 0],
      legend: { show: false },
      cursor: { drag: { x: false, y: false }, points: { size: 7 }, y: false },
      scales: { y: { range: (_, low, high) => [0, (high || 1) * 1.12] } },
      axes: [
        axis({ space: 80, size: 30, values: timeMarks }),
        axis({ size: 52, incrs: format === count ? WHOLE : undefined, values: (_, marks) => marks.map((mark) => format(mark)) }),
      ],
      series: [
        {},
        ...drawn.map((line) => ({
          stroke: () => colour(line.colour),
          fill: line.fill ? () => colour(`${line.colour}-fill`) : undefined,
          width: 1.75,
          dash: line.dash ? [6, 4] : undefined,
          paths: uPlot.paths.stepped({ align: line.steps }),
          points: { show: false },
        })),
      ],
      hooks: { setCursor: [(u) => legend(u.cursor.idx)] },
    },
    230,
  );
  return {
    node: frame.node,
    set(columns, text) {
      frame.show(columns[0].length > 1);
      if (columns[0].length < 2) return;
      shown = columns;
      frame.describe(text);
      chart.set(columns);
      legend(null);
    },
    close: chart.close,
  };
}

const WIDTH = Math.log10(2) / 4;
const MARKS = [1e-3, 1e-2, 0.1, 1, 10, 60, 600, 3600, 21600, 86400, 604800, 2592000, 31536000];
const CLOSE = [1e-3, 2e-3, 5e-3, 1e-2, 2e-2, 5e-2, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600, 7200, 14400, 43200, 86400];

/** How many feedbacks came after which delay; classes are even on a logarithmic scale. */
export function delays(title, help) {
  const frame = figure(title, help);
  const items = ["0.5", "0.9", "0.99", "longest"].map((q) => [q, el("b")]);
  const names = { 0.5: "median", 0.9: "90%", 0.99: "99%", longest: "longest" };
  frame.legend.append(...items.map(([q, value]) => el("span", {}, `${names[q]} `, value)));
  let quantiles = {};
  const chart = plot(
    frame.box,
    {
      padding: [18, 10, 0, 0],
      legend: { show: false },
      cursor: { show: false },
      scales: {
        x: { time: false, range: (_, low, high) => spread(low, high) },
        y: { range: (_, low, high) => [0, (high || 1) * 1.08] },
      },
      axes: [
        axis({
          size: 30,
          splits: (u) => {
            const { min, max } = u.scales.x;
            return (max - min > 1.6 ? MARKS : CLOSE).map(Math.log10).filter((x) => x >= min && x <= max);
          },
          values: (_, marks) => marks.map((x) => duration(10 ** x * (1 + 1e-9))),
        }),
        axis({ size: 52, incrs: WHOLE, values: (_, marks) => marks.map((mark) => count(mark)) }),
      ],
      series: [
        {},
        {
          stroke: () => colour("accent"),
          fill: () => colour("accent-fill"),
          width: 1,
          paths: uPlot.paths.bars({ size: [0.86, 60] }),
          points: { show: false },
        },
      ],
      hooks: { draw: [(u) => quantileLines(u, quantiles)] },
    },
    230,
  );
  return {
    node: frame.node,
    set(known) {
      const { histogram, longest } = known;
      frame.show(histogram.length > 0);
      items.forEach(([q, value]) => say(value, duration(q === "longest" ? longest : known.quantiles[q])));
      if (!histogram.length) return;
      quantiles = known.quantiles;
      const first = Math.round(Math.log10(histogram[0][0]) / WIDTH);
      const last = Math.round(Math.log10(histogram.at(-1)[0]) / WIDTH);
      const counts = new Map(histogram.map(([end, n]) => [Math.round(Math.log10(end) / WIDTH), n]));
      const steps = Array.from({ length: last - first + 1 }, (_, i) => first + i);
      frame.describe(
        `Delays from decision to feedback: half came within ${duration(quantiles["0.5"])}, ` +
          `99% within ${duration(quantiles["0.99"])}, the longest took ${duration(longest)}.`,
      );
      chart.set([steps.map((step) => (step - 0.5) * WIDTH), steps.map((step) => counts.get(step) ?? 0)]);
    },
    close: chart.close,
  };
}

function spread(low, high) {
  const least = 10 * WIDTH;
  const missing = Math.max(0, least - (high - low)) / 2;
  return [low - missing - WIDTH, high + missing + WIDTH];
}

function quantileLines(u, quantiles) {
  const { ctx, bbox } = u;
  ctx.save();
  ctx.strokeStyle = ctx.fillStyle = colour("warm");
  ctx.lineWidth = devicePixelRatio;
  ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
  ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
  ctx.textAlign = "center";
  let before = -Infinity;
  for (const [q, name] of [["0.5", "50%"], ["0.9", "90%"], ["0.99", "99%"]]) {
    if (quantiles[q] == null) continue;
    const x = u.valToPos(Math.log10(quantiles[q]), "x", true);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (x - before > 30 * devicePixelRatio) {
      ctx.fillText(name, x, bbox.top - 5 * devicePixelRatio);
      before = x;
    }
  }
  ctx.restore();
}

/** A small line of outstanding decisions, up to now. */
export function sparkline(points, now) {
  const drawing = el("svg", { class: "spark", viewBox: "0 0 240 48", preserveAspectRatio: "none", "aria-hidden": "true" });
  if (!points.length) {
    drawing.append(el("line", { class: "flat", x1: 0, x2: 240, y1: 46, y2: 46 }));
    return drawing;
  }
  const start = points[0][0];
  const span = Math.max(now - start, 1);
  const top = Math.max(1, ...points.map((point) => point[1]));
  const place = ([at, n]) => [((at - start) / span) * 240, 46 - (n / top) * 42].map((x) => Math.round(x * 10) / 10);
  let path = "";
  let level = null;
  for (const point of [...points, [now, points.at(-1)[1]]]) {
    const [x, y] = place(point);
    path += level == null ? `M${x} ${y}` : `H${x}V${y}`;
    level = y;
  }
  drawing.append(el("path", { class: "area", d: `${path}V48H0Z` }), el("path", { class: "line", d: path }));
  return drawing;
}

/** A mean and its interval on a track from `low` to `high`. */
export function interval(mean, ends, low, high) {
  const drawing = el("svg", { class: "interval", role: "img", "aria-label": mean == null ? "no reward yet" : `mean ${number(mean)}, between ${number(ends[0])} and ${number(ends[1])}` });
  const place = (x) => `${(100 * Math.min(1, Math.max(0, (x - low) / (high - low || 1)))).toFixed(2)}%`;
  drawing.append(el("line", { class: "track", x1: "0%", x2: "100%", y1: 10, y2: 10 }));
  if (mean == null) return drawing;
  drawing.append(
    el("line", { class: "between", x1: place(ends[0]), x2: place(ends[1]), y1: 10, y2: 10 }),
    el("circle", { class: "dot", cx: place(mean), cy: 10, r: 4.5 }),
  );
  return drawing;
}

/** A bar of a share. */
export function bar(part, kind = "accent") {
  const inner = el("span", { class: `fill ${kind}` });
  inner.style.width = `${Math.min(100, 100 * part)}%`;
  inner.hidden = !part;
  return el("span", { class: "bar", "aria-hidden": "true" }, inner);
}
