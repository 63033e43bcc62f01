// The rules of an experiment: change them, archive it, delete it. A form that is shown when it is asked for.

import { el, say } from "./words.js";

/** Field, label, help. Empty is never, where that can be. */
const FIELDS = [
  ["expiry_seconds", "A decision expires after", "seconds; empty: never. Open decisions keep their time"],
  ["on_expiry", "What is learned then", "drop, or a reward"],
  ["outstanding", "Open decisions at most", ""],
  ["retention_seconds", "Events and ended decisions are kept for", "seconds, 60 at least; empty: always"],
];
const NEVER = new Set(["expiry_seconds", "retention_seconds"]);

export function settings(name, call) {
  const path = `/v1/experiments/${encodeURIComponent(name)}`;
  const inputs = Object.fromEntries(FIELDS.map(([key]) => [key, el("input", { id: `rule-${key}`, autocomplete: "off" })]));
  const confirm = el("input", { id: "rule-delete", autocomplete: "off", spellcheck: "false", input: () => (erase.disabled = confirm.value !== name) });
  const told = el("p", { class: "quiet", role: "status" });
  const archive = el("button", { type: "button", click: () => ask("POST", archived() ? "/unarchive" : "/archive") });
  const erase = el("button", { type: "button", class: "danger", disabled: true, text: "Delete with all data", click: remove });
  const form = el(
    "form",
    { class: "rules", hidden: true, submit: save },
    ...FIELDS.map(([key, label, help]) => el("div", {}, el("label", { for: `rule-${key}`, text: label }), inputs[key], el("small", { class: "quiet", text: help }))),
    el("div", { class: "field" }, el("button", { type: "submit", text: "Save" }), archive),
    el("div", {}, el("label", { for: "rule-delete", text: `To delete it, its name: ${name}` }), confirm, erase),
    told,
  );
  const open = el("button", { type: "button", text: "Change", "aria-expanded": "false", click: toggle });
  let known = null;

  const archived = () => known?.archived_at != null;

  function fill() {
    for (const [key] of FIELDS) inputs[key].value = (key === "outstanding" ? known.limits.outstanding : known[key]) ?? "";
  }

  function toggle() {
    form.hidden = !form.hidden;
    open.setAttribute("aria-expanded", String(!form.hidden));
    if (!form.hidden && known) fill();
  }

  async function ask(method, more, body) {
    say(told, "");
    try {
      const answer = await call(method, path + more, body);
      say(told, "Done.");
      return answer;
    } catch (error) {
      say(told, `Not done: ${error.message}.`);
      return null;
    }
  }

  async function save(event) {
    event.preventDefault();
    const value = (key) => {
      const text = inputs[key].value.trim();
      if (text === "" && NEVER.has(key)) return null;
      return text !== "" && Number.isFinite(Number(text)) ? Number(text) : text;
    };
    const body = { expiry_seconds: value("expiry_seconds"), on_expiry: value("on_expiry"), limits: { outstanding: value("outstanding") }, retention_seconds: value("retention_seconds") };
    const answer = await ask("PATCH", "", body);
    if (answer) update((known = answer)), fill();
  }

  async function remove() {
    if ((await ask("DELETE", "")) != null) location.hash = "#/";
  }

  function update(experiment) {
    known = experiment;
    say(archive, archived() ? "Un-archive" : "Archive");
  }

  return { node: el("section", { class: "card" }, el("h2", { text: "Rules" }), open, form), update };
}
