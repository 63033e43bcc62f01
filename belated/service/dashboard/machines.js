// The processes that write to the database and how far behind they are; and the log of who did what.

import { count, duration, el, exact, plural, say, when } from "./words.js";

/** Seconds after which a process that tells every ten is missed; milliseconds between looks at the log. */
const SILENT = 60;
const OFTEN = 10000;

export function machines() {
  const body = el("tbody");
  const heads = ["Process", "Heard of", "Behind the log", "Experiments", "Version"];
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col", text })));
  const badge = el("span", { class: "badge" });
  const node = el(
    "section",
    { class: "card", hidden: true },
    el("div", { class: "head" }, el("h2", { text: "Who writes" }), badge),
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Who writes" }, el("table", { class: "wide" }, el("thead", {}, head), body)),
    el("p", { class: "quiet", text: "Each process follows the log: before it decides it reads what the others wrote. One that is behind has not been asked since." }),
  );
  let drawn = "";

  return {
    node,
    update(replicas) {
      const looks = JSON.stringify(replicas.map((each) => ({ ...each, silent: Math.floor(each.silent) })));
      if (looks === drawn) return;
      drawn = looks;
      node.hidden = !replicas.length;
      const lost = replicas.filter((each) => each.silent > SILENT).length;
      say(badge, lost ? `${count(lost)} silent` : `${count(replicas.length)} at work`);
      badge.className = `badge ${lost ? "doubt" : "good"}`;
      const order = [...replicas].sort((a, b) => (a.silent > SILENT) - (b.silent > SILENT) || a.name.localeCompare(b.name));
      body.replaceChildren(...order.map(row));
    },
  };
}

function row(each) {
  const gone = each.silent > SILENT;
  const behind = each.events ? `${plural(each.events, "event")}, ${duration(each.seconds)} at most` : "nothing";
  return el(
    "tr",
    { class: gone ? "quiet" : "" },
    el("th", { scope: "row", text: each.name }),
    el("td", { text: each.silent < 1 ? "now" : `${duration(each.silent)} ago` }, gone ? el("span", { class: "badge doubt", text: "silent" }) : null),
    el("td", { title: exact(each.events), text: gone ? "–" : behind }),
    el("td", { title: "which it has in memory", text: exact(each.experiments) }),
    el("td", { text: each.version }),
  );
}

/** The log, asked for when it is opened, and again while it is. */
export function log(call) {
  const body = el("tbody");
  const told = el("p", { class: "quiet", role: "status", text: "Loading." });
  const heads = ["When", "Who", "What", "Experiment", "From", "Details"];
  const table = el("table", { class: "wide told-of", hidden: true }, el("thead", {}, el("tr", {}, ...heads.map((text) => el("th", { scope: "col", text })))), body);
  const node = el(
    "details",
    { class: "card", toggle: () => look(true) },
    el("summary", { text: "Who did what" }),
    told,
    el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Who did what" }, table),
  );
  let last = 0;
  let drawn = "";

  async function look(now) {
    if (!node.open || (!now && Date.now() < last + OFTEN)) return;
    last = Date.now();
    try {
      show((await call("GET", "/v1/log")).lines);
    } catch (error) {
      if (error.status) say(told, error.status === 403 || error.status === 401 ? `This takes an admin token for all experiments: ${error.message}.` : error.message);
    }
  }

  function show(lines) {
    say(told, lines.length ? `The last ${plural(lines.length, "line")}, newest first. belated log shows more.` : "Nothing was done yet.");
    table.hidden = !lines.length;
    const looks = JSON.stringify(lines);
    if (looks === drawn) return;
    drawn = looks;
    const cells = (line) => [when(line.at), line.who, line.what, line.experiment ?? "–", line.address || "–", line.detail];
    body.replaceChildren(...lines.map((line) => el("tr", {}, ...cells(line).map((text) => el("td", { text })))));
  }
  return { node, update: () => look(false) };
}
