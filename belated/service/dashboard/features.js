// What the contexts of an experiment are made of.

import { el, number, plural, say } from "./words.js";

/** From so many features, and so many values of a category, on, the first are shown. */
const MANY = 50;
const FEW = 12;

export function features() {
  const body = el("tbody");
  const told = el("p", { class: "quiet" });
  const heads = ["Feature", "What it is", "A missing one"].map((text) => el("th", { scope: "col", text }));
  const table = el("table", { class: "features" }, el("thead", {}, el("tr", {}, ...heads)), body);
  const node = el("section", { class: "card", hidden: true }, el("h2", { text: "Features" }), told, el("div", { class: "scroll" }, table));
  let drawn = "";

  function update(experiment) {
    const stated = experiment.features ?? [];
    node.hidden = !stated.length;
    const looks = JSON.stringify(stated);
    if (looks === drawn) return; // they never change, but the page is asked for again and again
    drawn = looks;
    const rest = stated.length - MANY;
    const seen = experiment.context_size === 1 ? "one number" : plural(experiment.context_size, "number");
    say(told, `A context is an object; the learner sees ${seen} of it.${rest > 0 ? ` The first ${MANY} of ${stated.length} features:` : ""}`);
    const row = (feature) => el("tr", {}, el("th", { scope: "row", text: feature.name || "all others" }), el("td", { text: described(feature) }), el("td", { text: missing(feature) }));
    body.replaceChildren(...stated.slice(0, MANY).map(row));
  }
  return { node, update };
}

function described(feature) {
  const many = feature.many ? "a list of: " : "";
  switch (feature.kind) {
    case "number":
      if (feature.low != null) return `number, from ${number(feature.low)} to ${number(feature.high)}; beyond: ${feature.outside === "refuse" ? "refused" : "clipped"}`;
      return feature.mean != null ? `number, (x − ${number(feature.mean)}) / ${number(feature.scale)}` : "number";
    case "category": {
      const rest = feature.values.length - FEW;
      const values = feature.values.slice(0, FEW).join(", ") + (rest > 0 ? `, and ${number(rest)} more` : "");
      return `${many}${values}; others: ${feature.unknown === "slot" ? "a slot of their own" : "refused"}`;
    }
    case "hashed":
      return `${many}any text, in ${plural(feature.slots, "slot")}${feature.signed ? ", with a sign" : ""}`;
    case "boolean":
      return "true or false";
    case "intercept":
      return "always 1";
    default:
      return feature.kind;
  }
}

function missing(feature) {
  if (feature.kind === "intercept" || feature.kind === "ignored") return "–";
  if (feature.missing === "slot") return "a slot of its own";
  if (feature.default == null) return "refused";
  return `is ${Array.isArray(feature.default) ? `[${feature.default.join(", ")}]` : feature.default}`;
}
