// Numbers and times as people read them, elements, and rates. What users wrote goes through textContent only.

/** Where the service is: a proxy may show it under a path. */
export const root = new URL("..", import.meta.url).href;

const SVG = "http://www.w3.org/2000/svg";
const SVG_TAGS = new Set(["svg", "path", "line", "rect", "circle"]);

/** An element: `class`, `text` and functions (listeners) are known, all else are attributes. */
export function el(tag, given = {}, ...children) {
  const node = SVG_TAGS.has(tag) ? document.createElementNS(SVG, tag) : document.createElement(tag);
  for (const [key, value] of Object.entries(given)) {
    if (key === "text") node.textContent = visible(value);
    else if (typeof value === "function") node.addEventListener(key, value);
    else if (value === true) node.setAttribute(key, "");
    else if (value !== false && value != null) node.setAttribute(key, value);
  }
  node.append(...children.filter((child) => child != null));
  return node;
}

/** Set a text where it changed, so that selections and screen readers are left in peace. */
export function say(node, given) {
  const text = visible(given);
  if (node.textContent !== text) node.textContent = text;
}

const HIDDEN = /[\u0000-\u0009\u000b-\u001f\u007f-\u009f\u00ad\u061c\u115f\u1160\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb]/g;
/** A text whose control, invisible and bidirectional characters are shown as such: they could turn around what stands beside them. */
export const visible = (text) => String(text ?? "").replace(HIDDEN, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

/** 9,999 as it is, 1,234,567 as 1.23M. */
export const count = (n) => (n == null ? "–" : Math.abs(n) < 10000 ? whole.format(n) : compact.format(n));
export const exact = (n) => whole.format(n);
/** Three digits. */
export const number = (x) => (x == null ? "–" : Math.abs(x) >= 10000 ? compact.format(x) : digits.format(x));

/** With as many decimals as matter in a range of this width. */
export const fine = (x, width) => x.toFixed(Math.min(6, Math.max(0, 2 - Math.floor(Math.log10(width || 1)))));

/** A share as a percentage; small is not zero. */
export function share(part, all) {
  if (!all) return "–";
  const percent = (100 * part) / all;
  if (percent > 0 && percent < 0.1) return "< 0.1%";
  if (percent < 100 && percent > 99.9) return "> 99.9%";
  return `${percent >= 10 && percent < 99 ? Math.round(percent) : Math.floor(percent * 10) / 10}%`;
}

const UNITS = [[86400, "d"], [3600, "h"], [60, "min"], [1, "s"]];

/** Seconds in a unit that fits. */
export function duration(seconds) {
  if (seconds == null) return "–";
  for (const [size, unit] of UNITS) if (seconds >= size) return `${two(seconds / size)} ${unit}`;
  return seconds < 0.001 ? "< 1 ms" : `${two(seconds * 1000)} ms`;
}
const two = (x) => (x >= 9.95 ? whole.format(x) : String(Math.round(x * 10) / 10));

const TIMES = [[1, "s"], [60, "min"], [3600, "h"], [86400, "d"]];
/** In which time a rate is not small: seconds, and the unit. */
export const timeFor = (rate) => (rate ? TIMES.find(([seconds]) => rate * seconds >= 0.3) ?? TIMES.at(-1) : TIMES[0]);
/** A rate (a second) with its unit. */
export function perSecond(rate) {
  if (rate == null) return "–";
  const [seconds, unit] = timeFor(rate);
  return `${number(rate * seconds)}/${unit}`;
}

const day = new Intl.DateTimeFormat("en", { dateStyle: "medium", timeStyle: "short" });
export const when = (at) => day.format(new Date(at * 1000));
const hours = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
const dated = new Intl.DateTimeFormat("en", { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
/** A moment of a series that is so many seconds long. */
export const moment = (at, span) => (span > 86400 ? dated : hours).format(new Date(at * 1000));

export const plural = (n, word) => `${count(n)} ${word}${n === 1 ? "" : "s"}`;

const WINDOW = 20;
const polls = new Map();

/** Decisions and feedback a second over the last polls of an experiment; null after the first. */
export function rates(name, at, decisions, feedback) {
  let known = polls.get(name) ?? [];
  const last = known.at(-1);
  if (last && (decisions < last[1] || at < last[0])) known = [];
  if (!last || at > last[0]) known.push([at, decisions, feedback]);
  known = known.filter((poll) => poll[0] >= at - WINDOW);
  polls.set(name, known);
  const first = known[0];
  const seconds = at - first[0];
  return seconds < 0.5 ? null : { decisions: (decisions - first[1]) / seconds, feedback: (feedback - first[2]) / seconds };
}

/** What an experiment is doing: a word and a class. */
export function state(experiment) {
  if (experiment.read_only) return ["read-only", "bad"];
  if (experiment.archived_at != null) return ["archived", "dull"];
  return ["active", "good"];
}

/** A tile: a label, a number, a line below. */
export function tile(label, help = null) {
  const value = el("dd", { class: "value" });
  const below = el("dd", { class: "below" });
  const node = el("div", { class: "tile", title: help }, el("dt", { text: label }), value, below);
  return {
    node,
    set(text, under = "", title = null) {
      say(value, text);
      say(below, under);
      if (title != null) value.title = title;
    },
  };
}

/** Texts as a list, made anew only where they changed. */
export function list(node, texts) {
  if (texts.length === node.children.length && texts.every((text, i) => node.children[i].textContent === text)) return;
  node.replaceChildren(...texts.map((text) => el("li", { text })));
}
