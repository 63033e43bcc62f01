// One experiment.

import { bar, delays, interval, lines } from "./charts.js";
import { features } from "./features.js";
import { settings } from "./settings.js";
import { count, duration, el, exact, fine, list, moment, number, perSecond, plural, rates, say, share, state, tile, timeFor, when } from "./words.js";

export const asks = (name) => [`/v1/experiments/${name}`, `/v1/experiments/${name}/statistics`];
/** From so many actions on, only those that are played most are shown. */
const MANY = 30;
/** Points of the chart of rates: fewer are smoother. */
const RATES = 120;

export function make(name, _, call) {
  const badge = el("span", { class: "badge" });
  const about = el("p", { class: "about" });
  const trouble = el("p", { class: "notice bad", hidden: true });
  const warned = el("ul", { class: "notice doubt", hidden: true, "aria-label": "Warnings" });
  const tiles = {
    decisions: tile("Decisions", "How many decisions were asked for"),
    feedback: tile("Feedback", "How many of them have their feedback"),
    outstanding: tile("Outstanding now, G", "Decisions whose feedback has not come"),
    peak: tile("Peak, G*", "The most that were open when another decision was made"),
    expired: tile("Expired", "Decisions whose feedback did not come in time"),
    delay: tile("Median delay", "Half of the feedback came within this time"),
  };
  const outstanding = lines(
    "Outstanding feedback",
    "Decisions that wait for their feedback, and the most there were when a decision was made. The price of delay grows with the peak.",
    [
      { label: "outstanding", colour: "accent", fill: true, steps: 1 },
      { label: "peak", colour: "warm", dash: true, steps: 1 },
    ],
  );
  const unit = { seconds: 1, name: "s" };
  const flow = lines(
    "Requests",
    "How often decisions are asked for, and feedback comes.",
    [
      { label: "decisions", colour: "accent", steps: -1 },
      { label: "feedback", colour: "good", steps: -1 },
    ],
    (rate) => `${number(Number(rate.toPrecision(2)))}/${unit.name}`,
  );
  const waits = delays("Delays", "From a decision to its feedback, on a logarithmic scale. What has not come is not in it.");
  const parts = [pricePart(), poolPart(), countsPart()];
  const actions = actionsPart();
  const notes = el("ul", { class: "notes" });
  const spec = el("pre", { tabindex: 0 });
  const rules = settings(name, call);
  const stated = features();

  const node = el(
    "div",
    {},
    el("p", { class: "back" }, el("a", { href: "#/", text: "← All experiments" })),
    el("div", { class: "title" }, el("h1", { text: name }), badge),
    about,
    trouble,
    warned,
    el("dl", { class: "tiles" }, ...Object.values(tiles).map((each) => each.node)),
    outstanding.node,
    el("div", { class: "pair" }, flow.node, waits.node),
    actions.node,
    el("div", { class: "pair" }, parts[0].node, parts[1].node),
    parts[2].node,
    el("section", { class: "card" }, el("h2", { text: "What to look at" }), notes),
    rules.node,
    stated.node,
    el("details", { class: "card" }, el("summary", { text: "As it is stored" }), spec),
  );

  return {
    node,
    title: `${name} · belated`,
    update([experiment, now]) {
      const [word, kind] = state(experiment);
      say(badge, word);
      badge.className = `badge ${kind}`;
      say(about, described(experiment, now));
      trouble.hidden = !experiment.read_only && experiment.archived_at == null;
      trouble.className = `notice ${experiment.read_only ? "bad" : "dull"}`;
      say(trouble, experiment.read_only ?? (experiment.archived_at == null ? "" : `Archived on ${when(experiment.archived_at)}: it makes no more decisions. Open ones may still have feedback.`));
      list(warned, now.warnings);
      warned.hidden = !now.warnings.length;
      list(notes, now.notes);
      showTiles(tiles, experiment, now, rates(name, now.at, now.decisions, now.feedback));
      showSeries(outstanding, flow, unit, now);
      waits.set(now.delays);
      actions.update(experiment, now);
      parts.forEach((part) => part.update(experiment, now));
      rules.update(experiment);
      stated.update(experiment);
      say(spec, JSON.stringify(experiment, null, 2));
    },
    close() {
      [outstanding, flow, waits].forEach((chart) => chart.close());
    },
  };
}

function described(experiment, now) {
  const [low, high] = experiment.reward_range;
  const said = [now.plays, plural(experiment.actions.length, "action"), `rewards from ${number(low)} to ${number(high)}`];
  said.push(experiment.expiry_seconds == null ? "decisions never expire" : `decisions expire after ${duration(experiment.expiry_seconds)}`);
  said.push(`since ${when(experiment.created_at)}`);
  return said.join(" · ");
}

function showTiles(tiles, experiment, now, rate) {
  const { decisions, feedback, outstanding, peak, expired, late } = now;
  tiles.decisions.set(count(decisions), rate ? perSecond(rate.decisions) : "", exact(decisions));
  tiles.feedback.set(count(feedback), [share(feedback, decisions), rate && perSecond(rate.feedback)].filter(Boolean).join(" · "), exact(feedback));
  tiles.outstanding.set(count(outstanding), outstanding ? `${share(outstanding, decisions)} of decisions` : "nothing is open", exact(outstanding));
  tiles.peak.set(count(peak), now.rule.grows ? plural(now.instances, "instance") : "", exact(peak));
  tiles.expired.set(count(expired), expired ? `${share(expired, decisions)} · ${count(late)} came late` : "none", exact(expired));
  const { quantiles } = now.delays;
  tiles.delay.set(duration(quantiles["0.5"]), quantiles["0.99"] == null ? "" : `99% within ${duration(quantiles["0.99"])}`);
}

function showSeries(outstanding, flow, unit, now) {
  const points = now.series.points;
  const last = points.at(-1);
  const drawn = last && now.at > last[0] ? [...points, [now.at, ...last.slice(1)]] : points;
  const column = (i) => drawn.map((point) => point[i]);
  const span = drawn.length ? drawn.at(-1)[0] - drawn[0][0] : 0;
  const range = drawn.length ? ` between ${moment(drawn[0][0], span)} and ${moment(drawn.at(-1)[0], span)}` : "";
  outstanding.set([column(0), column(1), column(2)], `Outstanding feedback${range}: now ${exact(now.outstanding)}, at most ${exact(now.peak)}.`);

  // A rate belongs to the time up to its point. Before the first there was nothing; nor after the last, if that is long ago.
  const spacing = points.length > 1 ? span / points.length : 1;
  const every = Math.ceil(points.length / RATES);
  const from = points.filter((_, i) => (points.length - 1 - i) % every === 0);
  if (last) from.unshift([from[0][0] - spacing * every, 0, 0, 0, 0]);
  if (last && now.at > last[0] + Math.max(4 * spacing, 5)) from.push([last[0] + spacing, ...last.slice(1)], [now.at, ...last.slice(1)]);
  const steps = from.map((point, i) => {
    const before = from[i - 1];
    const seconds = before ? Math.max(point[0] - before[0], 0.001) : 1;
    return [point[0], before ? (point[3] - before[3]) / seconds : 0, before ? (point[4] - before[4]) / seconds : 0];
  });
  const most = (i) => steps.reduce((top, step) => Math.max(top, step[i]), 0);
  [unit.seconds, unit.name] = timeFor(Math.max(most(1), most(2)));
  const rate = (i) => steps.map((step) => step[i] * unit.seconds);
  flow.set([steps.map((step) => step[0]), rate(1), rate(2)], `Requests${range}: at most ${perSecond(most(1))} decisions and ${perSecond(most(2))} feedbacks.`);
}

// --- actions ---

function actionsPart() {
  const body = el("tbody");
  const scale = el("small");
  const more = el("button", { type: "button", class: "more", hidden: true, click: () => toggle() });
  const heads = ["Action", "Decisions", "Mean reward, 95% interval", "Open", "Typical delay"];
  const head = el("tr", {}, ...heads.map((text, i) => el("th", { scope: "col", class: i > 2 ? "right" : "" }, text, i === 2 ? scale : null)));
  const node = el("section", { class: "card" }, el("h2", { text: "Actions" }), el("div", { class: "scroll" }, el("table", { class: "actions" }, el("thead", {}, head), body)), more);
  let every = false;
  let last = null;
  let drawn = "";

  function toggle() {
    every = !every;
    update(...last);
  }

  function update(experiment, now) {
    last = [experiment, now];
    const symbols = bySymbol(now.symbols);
    let rows = now.actions.map((action, i) => ({ ...action, i }));
    more.hidden = rows.length <= MANY;
    say(more, every ? `Show the ${MANY} that are played most` : `Show all ${exact(rows.length)} actions`);
    if (!every && rows.length > MANY) rows = rows.sort((a, b) => b.pulls - a.pulls || a.i - b.i).slice(0, MANY);
    const [low, high] = ends(now.actions, experiment.reward_range);
    const looks = JSON.stringify([rows, now.symbols, low, high]);
    if (looks === drawn) return;
    drawn = looks;
    say(scale, Object.keys(now.symbols).length ? "" : `scale ${fine(low, high - low)} to ${fine(high, high - low)}`);
    const means = now.actions.map((action) => action.mean).filter((mean) => mean != null);
    const best = now.actions.length > 1 && means.length > 1 ? Math.max(...means) : null;
    body.replaceChildren(...rows.map((action) => actionRow(action, now.decisions, low, high, best, symbols.get(action.i))));
  }
  return { node, update };
}

function actionRow(action, decisions, low, high, best, symbols) {
  const cell = (label, given, ...children) => el("td", { "data-label": label, ...given }, ...children);
  const name = el("span", { class: "name", text: action.name });
  const leads = best != null && action.mean === best ? el("span", { class: "badge good", text: "highest mean" }) : null;
  const digits = (x) => fine(x, high - low);
  const between = action.rewards > 1 ? ` [${action.interval.map(digits).join(", ")}]` : " (one reward)";
  const text = symbols ?? (action.mean == null ? "no reward yet" : `${digits(action.mean)}${between}`);
  return el(
    "tr",
    {},
    el("th", { scope: "row" }, name, leads),
    cell("Decisions", { class: "pulls", title: exact(action.pulls) }, bar(decisions ? action.pulls / decisions : 0), el("span", { text: `${count(action.pulls)} · ${share(action.pulls, decisions)}` })),
    cell("Mean reward", { class: "estimate", title: `${exact(action.rewards)} rewards${action.defaults ? `, ${exact(action.defaults)} of them by default at expiry` : ""}; 95% interval` }, symbols ? null : interval(action.mean, action.interval, low, high), el("span", { text })),
    cell("Open", { class: "right", title: `at most ${exact(action.peak)}`, text: count(action.open) }),
    cell("Typical delay", { class: "right", text: duration(action.typical_delay) }),
  );
}

/** The part of the range in which the intervals lie. */
function ends(actions, [low, high]) {
  const seen = actions.filter((action) => action.rewards > 1);
  if (!seen.length) return [low, high];
  const least = Math.min(...seen.map((action) => action.interval[0]));
  const most = Math.max(...seen.map((action) => action.interval[1]));
  const room = Math.max((most - least) * 0.15, (high - low) * 0.02);
  return [Math.max(low, least - room), Math.min(high, most + room)];
}

/** Counts of symbols by action, as text. */
function bySymbol(symbols) {
  const found = new Map();
  for (const [key, n] of Object.entries(symbols)) {
    const cut = key.indexOf(":");
    const action = Number(key.slice(0, cut));
    const text = `${key.slice(cut + 1)}: ${count(n)}`;
    found.set(action, found.has(action) ? `${found.get(action)}, ${text}` : text);
  }
  return found;
}

// --- the price of delay ---

const VERDICTS = {
  bound: ["a guarantee", "good"],
  estimate: ["an estimate", "told"],
  guide: ["a guide, no guarantee", "doubt"],
  vacuous: ["says nothing yet", "dull"],
  none: ["no theorem", "dull"],
};

function pricePart() {
  const verdict = el("span", { class: "badge" });
  const big = el("p", { class: "big" });
  const bars = el("div", { class: "bars" });
  const text = el("p");
  const formula = el("p", { class: "formula" });
  const node = el("section", { class: "card price" }, el("div", { class: "head" }, el("h2", { text: "The price of delay so far" }), verdict), big, bars, text, formula);
  return {
    node,
    update(experiment, now) {
      const { kind, with_delay: whole, without_delay: alone, price } = now.price;
      const [word, look] = VERDICTS[kind];
      say(verdict, word);
      verdict.className = `badge ${look}`;
      big.hidden = price == null;
      const more = price ? `+${number(price)} on the bound, ${number(price / Math.max(1, now.decisions))} a decision` : "nothing";
      say(big, price == null ? "" : more);
      bars.hidden = kind === "none" || kind === "vacuous";
      if (!bars.hidden) {
        const row = (label, value, colour) => el("div", {}, el("span", { text: label }), bar(whole ? value / whole : 0, colour), el("b", { text: number(value) }));
        bars.replaceChildren(row("without delay", alone, "good"), row("with delay", whole, "warm"));
      }
      say(text, now.price.text);
      say(formula, now.rule.formula);
    },
  };
}

// --- instances or queues ---

function poolPart() {
  const title = el("h2");
  const big = el("p", { class: "big" });
  const bars = el("div", { class: "bars" });
  const text = el("p");
  const node = el("section", { class: "card" }, title, big, bars, text);
  const row = (label, value, all, colour) => el("div", {}, el("span", { text: label, title: label }), bar(all ? value / all : 0, colour), el("b", { text: count(value) }));
  return {
    node,
    update(experiment, now) {
      if (now.rule.grows) {
        const busy = Math.min(now.outstanding, now.instances);
        say(title, "Instances");
        say(big, plural(now.instances, "instance"));
        bars.replaceChildren(row("waiting", busy, now.instances, "accent"), row("free", now.instances - busy, now.instances, "good"));
      } else if (now.queues) {
        const total = now.queues.reduce((sum, n) => sum + n, 0);
        const longest = now.queues.map((n, cell) => [n, cell]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).slice(0, 8);
        const most = Math.max(1, longest[0]?.[0] ?? 0);
        const names = experiment.actions;
        const label = (cell) => {
          if (now.queues.length % names.length) return now.queues.length > 1 ? `queue ${cell + 1}` : "waiting"; // not one an action
          return now.queues.length > names.length ? `${names[cell % names.length]}, context ${Math.floor(cell / names.length)}` : names[cell];
        };
        say(title, "Queues");
        say(big, `${count(total)} queued`);
        bars.replaceChildren(...longest.map(([n, cell]) => row(label(cell), n, most, "accent")));
      } else {
        const longest = [...now.actions].sort((a, b) => b.peak - a.peak).slice(0, 8);
        say(title, "One learner, peak of each action");
        say(big, `${count(now.outstanding)} open`);
        bars.replaceChildren(...longest.map((action) => row(action.name, action.peak, longest[0].peak, "warm")));
      }
      say(text, now.rule.about);
    },
  };
}

// --- what else came ---

const COUNTS = [
  ["late", "Late", "feedback after expiry: on record, not learned"],
  ["expired", "Expired", "no feedback in time"],
  ["cancelled", "Cancelled", "never shown, nothing learned"],
  ["duplicates", "Duplicate", "the same feedback again: no effect"],
  ["conflicts", "Conflict", "another value for a closed decision: the first stays"],
  ["unknown", "Unknown", "tickets that were never given out"],
  ["dropped", "Replaced", "feedback for an action that was retired since"],
];

function countsPart() {
  const values = COUNTS.map(() => el("dd", { class: "value" }));
  const items = COUNTS.map(([, label, help], i) => el("div", { class: "tile" }, el("dt", { text: label }), values[i], el("dd", { class: "below", text: help })));
  return {
    node: el("section", { class: "card" }, el("h2", { text: "What else came" }), el("dl", { class: "tiles small" }, ...items)),
    update(_, now) {
      COUNTS.forEach(([key], i) => {
        say(values[i], count(now[key]));
        values[i].title = exact(now[key]);
        values[i].classList.toggle("zero", !now[key]);
      });
    },
  };
}
