// All experiments, one card each.

import { sparkline } from "./charts.js";
import { log, machines } from "./machines.js";
import { count, el, exact, list, perSecond, plural, rates, root, say, share, state, tile } from "./words.js";

export const asks = () => ["/v1/overview"];
/** From so many experiments on they can be searched. */
const MANY = 9;

export function make(_, token, call) {
  const totals = { experiments: tile("Experiments"), decisions: tile("Decisions"), outstanding: tile("Outstanding now"), feedback: tile("Feedback") };
  const numbers = el("dl", { class: "tiles" }, ...Object.values(totals).map((each) => each.node));
  const search = el("input", { type: "search", placeholder: "Find by name", "aria-label": "Find an experiment by name", input: () => filter() });
  const unopened = el("ul", { class: "notice bad", hidden: true });
  const cards = el("ul", { class: "cards" });
  const node = el("div", {}, el("div", { class: "title" }, el("h1", { text: "Experiments" }), search), numbers, unopened, cards);
  const writers = machines();
  const lines = log(call);
  node.append(writers.node, lines.node);
  const known = new Map();
  let empty = null;

  function filter() {
    const wanted = search.value.toLowerCase();
    for (const [name, card] of known) card.node.hidden = !name.toLowerCase().includes(wanted);
  }

  return {
    node,
    title: "belated",
    update([{ at, experiments, unopened: others, warnings, replicas }]) {
      writers.update(replicas);
      lines.update();
      const said = [...warnings, ...others.map((each) => each.reason)];
      list(unopened, said);
      unopened.hidden = !said.length;
      const any = experiments.length > 0;
      numbers.hidden = cards.hidden = !any;
      search.hidden = experiments.length < MANY;
      if (!any && !others.length && !empty) cards.after((empty = welcome(token())));
      if (any && empty) {
        empty.remove();
        empty = null;
      }
      if (!any) return;
      const sum = (what) => experiments.reduce((total, each) => total + each.statistics[what], 0);
      const flow = { decisions: 0, feedback: 0 };
      let measured = false;
      const order = [...experiments].sort((a, b) => ended(a) - ended(b) || b.created_at - a.created_at);
      order.forEach((experiment, place) => {
        const { decisions, feedback } = experiment.statistics;
        const rate = rates(experiment.name, at, decisions, feedback);
        if (rate) {
          measured = true;
          flow.decisions += rate.decisions;
          flow.feedback += rate.feedback;
        }
        let card = known.get(experiment.name);
        if (!card) known.set(experiment.name, (card = makeCard(experiment.name)));
        card.update(experiment, at, rate);
        if (cards.children[place] !== card.node) cards.insertBefore(card.node, cards.children[place] ?? null);
      });
      const active = experiments.filter((each) => !ended(each)).length;
      totals.experiments.set(count(experiments.length), `${count(active)} active`);
      totals.decisions.set(count(sum("decisions")), measured ? perSecond(flow.decisions) : "", exact(sum("decisions")));
      totals.outstanding.set(count(sum("outstanding")), "waiting for feedback", exact(sum("outstanding")));
      totals.feedback.set(count(sum("feedback")), measured ? perSecond(flow.feedback) : "", exact(sum("feedback")));
      filter();
    },
    close() {},
  };
}

const ended = (experiment) => (experiment.archived_at != null ? 1 : 0);

function makeCard(name) {
  const badge = el("span", { class: "badge" });
  const warned = el("span", { class: "badge doubt", hidden: true });
  const about = el("p", { class: "about" });
  const drawing = el("div", { class: "drawing" });
  const line = el("p", { class: "hidden" });
  const trouble = el("p", { class: "notice bad", hidden: true });
  const cells = {};
  const cell = (key, label) => {
    cells[key] = el("dd");
    return el("div", {}, el("dt", { text: label }), cells[key]);
  };
  const link = el("a", { href: `#/${name}`, text: name });
  const now = el("div", { class: "now" }, el("dl", {}, cell("outstanding", "outstanding"), cell("peak", "peak")), drawing);
  const facts = el("dl", { class: "facts" }, cell("decisions", "decisions"), cell("rate", "now"), cell("feedback", "with feedback"), cell("expired", "expired"));
  const node = el(
    "li",
    { class: "card one" },
    el("div", { class: "head" }, el("h2", {}, link), warned, badge),
    about,
    trouble,
    now,
    line,
    facts,
  );
  return {
    node,
    update(experiment, at, rate) {
      const numbers = experiment.statistics;
      const [word, kind] = state(experiment);
      say(badge, word);
      badge.className = `badge ${kind}`;
      warned.hidden = !numbers.warnings;
      say(warned, plural(numbers.warnings, "warning"));
      say(about, `${numbers.plays} · ${plural(experiment.actions.length, "action")}`);
      say(trouble, numbers.trouble ?? "");
      trouble.hidden = !numbers.trouble;
      now.hidden = line.hidden = facts.hidden = Boolean(numbers.trouble); // they are not known
      drawing.replaceChildren(sparkline(numbers.outstanding_series, at));
      for (const key of ["outstanding", "peak", "decisions"]) {
        say(cells[key], count(numbers[key]));
        cells[key].title = exact(numbers[key]);
      }
      cells.peak.classList.toggle("zero", !numbers.peak);
      say(line, `Outstanding over time: now ${count(numbers.outstanding)}, at most ${count(numbers.peak)}.`);
      say(cells.rate, rate ? perSecond(rate.decisions) : "–");
      say(cells.feedback, share(numbers.feedback, numbers.decisions));
      say(cells.expired, share(numbers.expired, numbers.decisions));
      cells.expired.title = `${exact(numbers.expired)} expired, ${exact(numbers.late)} of them had feedback later`;
    },
  };
}

function welcome(token) {
  const bearer = token ? ` -H 'Authorization: Bearer TOKEN'` : "";
  const curl = (path, body) => `curl -X POST ${root}v1/experiments${path}${bearer} -d '${body}'`;
  const steps = [
    ["Make an experiment.", curl("", `{"name": "ads", "actions": ["a", "b", "c"], "forecaster": {"name": "bold", "learner": {"name": "exp3"}}}`)],
    ["Decide. The answer has an action and a ticket.", curl("/ads/decisions", "{}")],
    ["Whenever its reward is known, today or next week, hand it in.", curl("/ads/feedback", `{"ticket": "…", "value": 1.0}`)],
  ];
  return el(
    "section",
    { class: "card welcome" },
    el("h2", { text: "No experiments yet" }),
    el("p", { text: "Decide now, learn when the feedback comes. This page shows an experiment as soon as there is one." }),
    el("ol", {}, ...steps.map(([text, line]) => el("li", {}, el("p", { text }), command(line)))),
    el("p", {}, "All that can be asked is in the ", el("a", { href: "docs", text: "API" }), "."),
  );
}

function command(line) {
  const text = el("code", { text: line });
  const copy = el("button", {
    type: "button",
    class: "copy",
    text: "Copy",
    click: async () => {
      await navigator.clipboard.writeText(line);
      copy.textContent = "Copied";
      setTimeout(() => (copy.textContent = "Copy"), 1500);
    },
  });
  return el("div", { class: "command" }, el("pre", { tabindex: 0 }, text), navigator.clipboard ? copy : null);
}
