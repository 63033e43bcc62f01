// Which page is shown, asking the server every other second, the token, and what happens without a connection.

import { repaint } from "./charts.js";
import * as detail from "./detail.js";
import * as overview from "./overview.js";
import { duration, el, root, say } from "./words.js";

const OFTEN = 2000;
const SELDOM = 20000;
const SOMETIMES = 10000;
const PATIENCE = 15000;
const TOKEN = "belated token";

const main = document.getElementById("main");
const pulse = document.getElementById("pulse");
const lost = document.getElementById("lost");

let page = null; // {make, asks, name, view}
let turn = 0;
let timer = 0;
let seen = null; // when the server last answered
let trouble = null;
let unready = null; // why the service says that it cannot do its work
let checked = 0;

class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

const token = () => sessionStorage.getItem(TOKEN);

async function ask(path, signal, method = "GET", content = undefined) {
  const headers = token() ? { Authorization: `Bearer ${token()}` } : {};
  const answer = await fetch(root + path.slice(1), { method, headers, signal, body: content === undefined ? undefined : JSON.stringify(content), cache: "no-store" });
  const body = await answer.json().catch(() => null);
  if (!answer.ok) throw new Refused(answer.status, body?.error?.message ?? `the server answers ${answer.status}`);
  return body;
}

function open() {
  const name = decodeURIComponent(location.hash.replace(/^#\/?/, ""));
  if (location.hash === "#main") return;
  page?.view?.close();
  const kind = name ? detail : overview;
  page = { kind, name, view: null };
  main.replaceChildren(el("p", { class: "quiet", text: "Loading." }));
  document.title = name ? `${name} · belated` : "belated";
  scrollTo(0, 0);
  poll();
}

async function poll() {
  clearTimeout(timer);
  const mine = ++turn;
  const stop = new AbortController();
  const patience = setTimeout(() => stop.abort(), PATIENCE);
  try {
    checkReady(stop.signal).then(status);
    const answers = await Promise.all(page.kind.asks(encodeURIComponent(page.name)).map((path) => ask(path, stop.signal)));
    if (mine !== turn) return;
    show(answers);
    seen = Date.now();
    trouble = null;
  } catch (error) {
    if (mine !== turn) return;
    fail(error);
  } finally {
    clearTimeout(patience);
    if (mine === turn) timer = setTimeout(poll, document.hidden ? SELDOM : OFTEN);
  }
  status();
}

/** Whether it can do its work, which is another matter than whether it answers: sometimes, and as long as it cannot. */
async function checkReady(signal) {
  if (!trouble && !unready && Date.now() < checked + SOMETIMES) return;
  checked = Date.now();
  try {
    await ask("/ready", signal);
    unready = null;
  } catch (error) {
    unready = error instanceof Refused ? error.message : null;
  }
}

function show(answers) {
  if (!page.view) {
    page.view = page.kind.make(page.name, token, (method, path, body) => ask(path, undefined, method, body));
    main.replaceChildren(page.view.node);
    document.title = page.view.title;
  }
  page.view.update(answers);
}

function fail(error) {
  if (error instanceof Refused && [401, 403, 404, 409, 422].includes(error.status)) {
    seen = Date.now();
    trouble = null;
    page.view?.close();
    page.view = null;
    if ([401, 403].includes(error.status)) askToken(error);
    else missing({404: "Not here", 409: "This experiment cannot be shown"}[error.status] ?? "No numbers", error.message);
    return;
  }
  trouble = error instanceof Refused ? `The server has trouble: ${error.message}` : "Connection lost";
  if (!(error instanceof Refused || error instanceof TypeError || error.name === "AbortError")) console.error(error);
}

function missing(title, message) {
  main.replaceChildren(el("section", { class: "card welcome" }, el("h1", { text: title }), el("p", { text: message }), el("p", {}, el("a", { href: "#/", text: "All experiments" }))));
}

function askToken(error) {
  if (main.querySelector("form.token")) {
    say(main.querySelector("form.token .why"), why(error));
    return;
  }
  const input = el("input", { type: "password", id: "token", autocomplete: "off", spellcheck: "false", required: true });
  const form = el(
    "form",
    {
      class: "card welcome token",
      submit: (event) => {
        event.preventDefault();
        sessionStorage.setItem(TOKEN, input.value.trim());
        main.replaceChildren(el("p", { class: "quiet", text: "Loading." }));
        poll();
      },
    },
    el("h1", { text: "A token is needed" }),
    el("p", { class: "why", text: why(error) }),
    el("label", { for: "token", text: "Token" }),
    el("div", { class: "field" }, input, el("button", { type: "submit", text: "Enter" })),
    el("p", { class: "quiet" }, "Make one with ", el("code", { text: "belated token create dashboard --scope read" }), ". It is kept until this tab is closed."),
  );
  main.replaceChildren(form);
  input.focus();
}

const why = (error) => (error.status === 403 ? `The server says: ${error.message}.` : token() ? "The server does not know this token." : "This server shows its numbers only to those who have one.");

function status() {
  lost.hidden = !trouble && !unready;
  document.body.classList.toggle("stale", Boolean(trouble));
  if (trouble) {
    const ago = seen == null ? "" : `, last seen ${duration(Math.max(1, Math.round((Date.now() - seen) / 1000)))} ago`;
    say(lost, `${trouble}${ago}. Trying again.`);
  } else if (unready) {
    say(lost, `Not ready: ${unready}.`);
  }
  say(pulse, trouble ? "Offline" : unready ? "Not ready" : seen == null ? "Connecting" : "Live");
  pulse.className = `pulse ${trouble || unready ? "bad" : seen == null ? "" : "good"}`;
  pulse.title = trouble || unready || seen == null ? "" : "It answers, and is ready: the database takes writes";
}

setInterval(status, 1000);
addEventListener("hashchange", open);
addEventListener("online", poll);
document.addEventListener("visibilitychange", () => document.hidden || poll());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);
open();
