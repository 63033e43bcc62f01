"""The dashboard in a real browser, against a real server: live, in every state, light and dark, without a slip."""

import importlib.util
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import time

import httpx
import pytest

from belated.ledger.experiment import make
from belated.ledger.sqlite import SQLite
from belated.ledger.store import Event, Head
from belated.service import auth, dashboard
from tests.test_service import ADS, Server

CHROMIUM = shutil.which("chromium")
PLAYWRIGHT = importlib.util.find_spec("playwright") is not None
HOSTILE = ["<img src=x onerror=alert(1)>", "</td><script>alert(2)</script>", "' onmouseover='alert(3)", "ok"]
#: What a browser itself says of answers that are no success; all else on the console is a defect.
BY_THE_BROWSER = "Failed to load resource"
#: Milliseconds: polls are 2 s apart.
SOON = 10_000


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None or not PLAYWRIGHT:
        said = "needs chromium and playwright: run `make services` and install the dev group"
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(said)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox", "--disable-gpu"])
        yield started
        started.close()


@pytest.fixture
def opened(browser):
    """Opens pages, and holds them to account: no error, no other host, no dialog."""
    contexts, said, asked = [], [], []

    def open_(url, refusals=False, **options):
        context = browser.new_context(**{"viewport": {"width": 1200, "height": 900}, "locale": "en"} | options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(SOON)

        def heard(message):
            if message.type in ("error", "warning") and not (refusals and message.text.startswith(BY_THE_BROWSER)):
                said.append(message.text)

        page.on("console", heard)
        page.on("pageerror", lambda error: said.append(str(error)))
        page.on("dialog", lambda dialog: (said.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: asked.append(request.url))
        page.goto(url)
        return page

    yield open_
    hosts = {httpx.URL(url).host for url in asked}
    for context in contexts:
        context.close()
    assert said == []
    assert hosts <= {"127.0.0.1"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    made = Server(tmp_path_factory.mktemp("dashboard") / "dashboard.db")
    yield made
    made.end()


@pytest.fixture
def url(server):
    return str(server.http.base_url).rstrip("/")


def tile(page, label):
    """The number under a label."""
    return page.locator(".tile", has=page.locator(f"dt:text-is('{label}')")).locator(".value")


def shows(locator, text):
    from playwright.sync_api import expect

    expect(locator).to_have_text(text, timeout=SOON)


def stored(file, name, events, version=None, **more):
    """Put an experiment with these events into a database."""
    made = make(name, ["a", "b"], {"name": "bold", "learner": {"name": "exp3"}}, **more)
    row = made.row() if version is None else made.row()._replace(version=version)
    store = SQLite(str(file), serve=True)
    with store.write() as session:
        number = session.add_experiment(row)
        rows = (Event(number, place, *given) for place, given in enumerate(events, 1))
        while some := list(itertools.islice(rows, 10_000)):
            session.add_events(some)
            session.put_heads([Head(number, some[-1].place, some[-1].place, some[-1].at)])
    store.close()


def history(tickets, width=1000, lost=0):
    """Decisions, and feedback `width` decisions later; of every `lost` one it does not come in time."""
    start = time.time() - tickets / 100
    for k in range(tickets + width):
        at = start + k / 100
        if k >= width:
            end = "drop" if lost and k % lost == 0 else "feedback"
            yield k % width, 2 * (k // width), end, None, k % 2, None, str(float(k % 3 == 0)), width / 100, at
        if k < tickets:
            yield k % width, 2 * (k // width) + 1, "decide", None, k % 2, 0.5, None, None, at


# --- what the server hands out ---


def test_files_come_with_a_strict_policy(server):
    for name in ("", *(f"dashboard/{name}" for name in dashboard.NAMES)):
        answer = server.http.get(f"/{name}")
        assert answer.status_code == 200, name
        policy = dict(part.strip().split(" ", 1) for part in answer.headers["content-security-policy"].split(";"))
        assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
        assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
        assert policy["img-src"] == "'self' data:"
        assert answer.headers["x-content-type-options"] == "nosniff"
    for name in ("page.py", "../app.py", "..%2fapp.py", "__init__.py", "vendor/", ""):
        assert server.http.get(f"/dashboard/{name}").status_code == 404


def test_nothing_is_inline_and_nothing_comes_from_elsewhere():
    for name in dashboard.NAMES:
        text = dashboard.find(name)[0].decode()
        assert "innerHTML" not in text or "vendor" in name, name
        addresses = set(re.findall(r"https?://[\w./]+", text))
        assert addresses <= {"http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot"}, name
    page = dashboard.find(dashboard.INDEX)[0].decode()
    assert "<style" not in page and "style=" not in page and not re.search(r"\son\w+=", page)
    assert all("src=" in tag for tag in re.findall(r"<script[^>]*>", page))


def test_it_works_under_a_path(opened, tmp_path):
    server = Server(tmp_path / "path.db", "--root-path", "/belated")
    try:
        page = opened(f"{str(server.http.base_url).rstrip('/')}/belated/")
        shows(page.locator(".welcome h2"), "No experiments yet")
        assert "/belated/v1/experiments" in page.locator(".welcome pre").first.inner_text()
        page.get_by_role("link", name="API").first.click()
        shows(page.locator("h1").first, "belated: the API")
        assert page.url.endswith("/belated/docs")
    finally:
        server.end()


# --- the states ---


def test_a_token_is_entered_then_nothing_is_there_yet(opened, tmp_path):
    store = SQLite(str(tmp_path / "token.db"), serve=True)
    admin, decides = auth.create(store, "page", ["admin"]), auth.create(store, "app", ["decide"])
    store.close()
    server = Server(tmp_path / "token.db", "--require-token")
    try:
        page = opened(str(server.http.base_url), refusals=True)
        shows(page.locator("h1"), "A token is needed")
        for wrong, said in (("nonsense", "does not know this token"), (decides, "lacks the scope 'read'")):
            page.get_by_label("Token").fill(wrong)
            page.keyboard.press("Enter")
            page.locator(".why", has_text=said).wait_for()
        page.get_by_label("Token").fill(admin)
        page.get_by_role("button", name="Enter").click()
        shows(page.locator(".welcome h2"), "No experiments yet")
        page.reload()
        shows(page.locator(".welcome h2"), "No experiments yet")
        assert page.evaluate("Object.keys(localStorage).length") == 0

        words = shlex.split(page.locator(".welcome pre").first.inner_text().replace("TOKEN", admin))
        assert words[:3] == ["curl", "-X", "POST"] and words[4:7:2] == ["-H", "-d"]
        headers = dict([words[5].split(": ")])
        assert server.http.post(words[3], content=words[7], headers=headers).status_code == 201
        shows(page.locator(".one h2"), "ads")  # without a reload
        assert page.locator(".welcome").count() == 0
        page.locator(".one a").click()
        shows(page.locator("h1"), "ads")
        shows(page.locator(".price p").nth(1), "There are no decisions yet.")
        assert page.locator(".nothing:visible").count() == 3
    finally:
        server.end()


def test_one_ticket_then_feedback_arrives_live(opened, server, url):
    server.create("live")
    ticket = server.decide("live")["ticket"]
    page = opened(f"{url}/#/live")
    shows(tile(page, "Decisions"), "1")
    shows(tile(page, "Outstanding now, G"), "1")
    shows(tile(page, "Feedback"), "0")
    shows(page.locator(".price .badge"), "says nothing yet")
    assert "too few" in page.locator(".price").inner_text()
    assert "now 1, at most 0" in page.locator(".chart").first.get_attribute("aria-label")
    page.evaluate("window.unchanged = true")
    server.feed("live", ticket)
    shows(tile(page, "Feedback"), "1")
    shows(tile(page, "Outstanding now, G"), "0")
    page.locator(".estimate", has_text="1.00 (one reward)").wait_for()
    server.feed("live", ticket)
    server.feed("live", ticket, 0.0)
    server.feed("live", "0" * 32)
    for label in ("Duplicate", "Conflict", "Unknown"):
        shows(tile(page, label), "1")
    assert page.evaluate("window.unchanged") is True
    page.locator(".back a").click()
    shows(page.locator("h1"), "Experiments")
    shows(page.locator(".one", has_text="live").locator(".facts dd").nth(2), "100%")


@pytest.mark.parametrize("forecaster", ["bold", "qpmd", "direct"])
def test_what_users_wrote_is_text(opened, server, url, forecaster):
    name = f"names-{forecaster}"
    server.create(name, actions=HOSTILE, forecaster={"name": forecaster, "learner": {"name": "ucb1"}})
    made = server.decide(name, {"count": 20})["decisions"]
    rewards = [{"ticket": each["ticket"], "value": each["action"] / 4} for each in made]
    server.http.post(f"/v1/experiments/{name}/feedback", json=rewards)
    page = opened(f"{url}/#/{name}")
    page.locator("tbody tr").nth(3).wait_for()
    assert page.locator("tbody .name").all_inner_texts() == HOSTILE
    assert page.locator("main img").count() == page.locator("main script").count() == 0
    page.locator("summary").click()
    assert HOSTILE[1] in page.locator("details pre").inner_text()
    expected = {"bold": "20 instances", "qpmd": " queued", "direct": "0 open"}[forecaster]
    assert expected in page.locator(".card .big:visible").last.inner_text()


def test_an_address_is_no_way_in(opened, url):
    page = opened(f"{url}/#/%3Cimg%20src=x%20onerror=alert(1)%3E", refusals=True)
    shows(page.locator("h1"), "Not here")
    assert "<img" in page.locator("main").inner_text()
    page.locator("main a").click()
    shows(page.locator("h1"), "Experiments")


def test_symbols_are_counted(opened, server, url):
    game = {"name": "cbp", "loss": [[0.0, 1.0], [1.0, 0.0]], "symbols": [["x", "<b>"], ["x", "<b>"]]}
    server.create("symbols", actions=["a", "b"], forecaster={"name": "bold", "learner": game})
    ticket = server.decide("symbols")["ticket"]
    assert server.feed("symbols", ticket, "<b>").status_code == 200
    page = opened(f"{url}/#/symbols")
    page.locator(".estimate", has_text="<b>: 1").wait_for()


def test_features_are_shown(opened, server, url):
    stated = [
        {"name": "user.age", "kind": "number", "low": 0, "high": 100, "missing": "slot"},
        {"name": "<b>plan</b>", "kind": "category", "values": HOSTILE, "unknown": "slot", "default": "ok"},
        {"name": "tags", "kind": "hashed", "slots": 8, "many": True},
        {"kind": "ignored"},
    ]
    server.create("features", forecaster="direct(linucb)", features=stated)
    page = opened(f"{url}/#/features")
    shows(page.locator(".features td").nth(0), "number, from 0 to 100; beyond: clipped")
    rows = page.locator(".features tbody tr").all_inner_texts()
    assert rows[0].split("\t") == ["user.age", "number, from 0 to 100; beyond: clipped", "a slot of its own"]
    assert rows[1].split("\t") == ["<b>plan</b>", f"{', '.join(HOSTILE)}; others: a slot of their own", "is ok"]
    assert rows[2].split("\t") == ["tags", "a list of: any text, in 8 slots", "refused"]
    assert rows[3].split("\t") == ["all others", "ignored", "\N{EN DASH}"]
    assert "the learner sees 15 numbers of it" in page.locator("main").inner_text()
    assert page.locator("main img").count() == page.locator("main script").count() == 0
    server.create("without")
    page = opened(f"{url}/#/without")
    shows(page.locator("h1"), "without")
    assert page.locator(".features:visible").count() == 0


def test_archived_is_said(opened, server, url):
    server.create("old")
    server.http.post("/v1/experiments/old/archive")
    page = opened(f"{url}/#/old")
    shows(page.locator(".title .badge"), "archived")
    assert "makes no more decisions" in page.locator(".notice:visible").inner_text()


def test_a_database_that_does_not_answer_and_an_experiment_that_cannot_be_used(opened, server, url):
    server.create("sick")
    page = opened(f"{url}/#/sick", refusals=True)
    tile(page, "Decisions").wait_for()

    def answers(status, kind, message):
        body = {"error": {"kind": kind, "message": message}}
        return lambda route: route.fulfill(status=status, json=body)

    page.route("**/statistics", answers(503, "storage", "the database does not answer; try again in a second"))
    page.locator("#lost:visible").wait_for()
    assert "The server has trouble: the database does not answer" in page.locator("#lost").inner_text()
    page.unroute("**/statistics")
    page.route("**/statistics", answers(409, "damaged", "sick is damaged: state 0 has 1 bytes, not 96"))
    shows(page.locator("h1"), "This experiment cannot be shown")
    assert "state 0 has 1 bytes, not 96" in page.locator("main").inner_text()
    page.unroute("**/statistics")
    tile(page, "Decisions").wait_for()


def test_lost_connection_is_said_and_mended(opened, tmp_path):
    file = tmp_path / "lost.db"
    server = Server(file)
    port = str(server.http.base_url.port)
    server.create("ads")
    ticket = server.decide("ads")["ticket"]
    page = opened(f"{server.http.base_url}#/ads", refusals=True)
    shows(tile(page, "Outstanding now, G"), "1")
    server.end(signal.SIGKILL)
    page.locator("#lost:visible").wait_for()
    assert re.fullmatch(r"Connection lost, last seen \d+ s ago\. Trying again\.", page.locator("#lost").inner_text())
    shows(page.locator("#pulse"), "Offline")
    shows(tile(page, "Outstanding now, G"), "1")  # what was known stays
    again = Server(file, "--port", port)
    try:
        again.feed("ads", ticket)
        page.locator("#lost").wait_for(state="hidden")
        shows(tile(page, "Outstanding now, G"), "0")
        shows(page.locator("#pulse"), "Live")
    finally:
        again.end()


# --- how it looks ---

CONTRAST = """() => {
  const style = getComputedStyle(document.documentElement);
  const light = (name) => {
    const hex = style.getPropertyValue("--" + name).trim().slice(1);
    const parts = [0, 2, 4].map((i) => parseInt(hex.slice(i, i + 2), 16) / 255);
    const linear = parts.map((c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4));
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2];
  };
  const ratio = (a, b) => (Math.max(light(a), light(b)) + 0.05) / (Math.min(light(a), light(b)) + 0.05);
  const inks = ["ink", "soft", "accent", "warm", "good", "doubt", "bad", "dull", "told"];
  const pairs = inks.flatMap((ink) => ["paper", "ground"].map((ground) => [ink, ground]));
  pairs.push(["doubt", "doubt-tint"], ["bad", "bad-tint"], ["ink", "tint"]);
  return pairs.map((pair) => [ratio(...pair), ...pair]);
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_light_and_dark_have_contrast(opened, server, url, scheme):
    if not any(each["name"] == "look" for each in server.http.get("/v1/experiments").json()["experiments"]):
        server.create("look")
        server.decide("look", {"count": 5})
    page = opened(f"{url}/#/look", color_scheme=scheme)
    page.locator(".chart canvas").first.wait_for()
    red, green, blue = map(int, re.findall(r"\d+", page.evaluate("getComputedStyle(document.body).backgroundColor")))
    assert (red + green + blue > 600) == (scheme == "light")
    assert min(page.evaluate(CONTRAST)) > [4.5]
    other = "dark" if scheme == "light" else "light"
    before = page.locator(".chart canvas").first.screenshot()
    page.emulate_media(color_scheme=other)
    page.wait_for_timeout(100)
    assert page.locator(".chart canvas").first.screenshot() != before


def test_it_fits_a_phone_and_can_be_used_by_keyboard(opened, server, url):
    server.create("phone", actions=["a" * 200, "b"])
    server.decide("phone", {"count": 3})
    page = opened(url, viewport={"width": 400, "height": 800})
    page.locator(".one", has_text="phone").wait_for()
    fits = "document.documentElement.scrollWidth <= innerWidth"
    assert page.evaluate(fits)
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "phone":
            break
    page.keyboard.press("Enter")
    shows(page.locator("h1"), "phone")
    page.locator(".chart canvas").first.wait_for()
    assert page.evaluate(fits)
    for chart in page.locator("[role=img]:visible").all():
        assert len(chart.get_attribute("aria-label")) > 10


# --- the service itself ---


def test_who_writes_and_who_did_what(opened, tmp_path):
    file = tmp_path / "who.db"
    store = SQLite(str(file), serve=True)
    boss, reader = auth.create(store, HOSTILE[0], ["admin"]), auth.create(store, "reader", ["read"])
    with store.write() as session:
        line = {"at": session.now() - 3600, "version": "9", "experiments": 1, "events": 7, "seconds": 5.0}
        session.set_meta(f"replica {HOSTILE[1]}:1", json.dumps(line))
        line = {"at": session.now() + 3600, "version": "9", "experiments": 12, "events": 70_000, "seconds": 5.0}
        session.set_meta("replica far:2", json.dumps(line))
    store.close()
    server = Server(file, "--require-token")
    try:
        server.http.headers["authorization"] = f"Bearer {boss}"
        server.create("ads")
        page = opened(str(server.http.base_url), refusals=True, viewport={"width": 390, "height": 800})
        page.get_by_label("Token").fill(reader)
        page.keyboard.press("Enter")
        rows = page.locator("section tbody tr")
        shows(rows.nth(0).locator("th"), "far:2")
        shows(rows.nth(0).locator("td").nth(1), "70K events, 5 s at most")
        shows(rows.nth(1).locator("th"), f"{HOSTILE[1]}:1")
        shows(rows.nth(1).locator(".badge"), "silent")
        page.get_by_text("Who did what").click()
        page.get_by_text("This takes an admin token for all experiments: this token lacks the scope 'admin'").wait_for()
        page.evaluate("token => sessionStorage.setItem('belated token', token)", boss)
        page.reload()
        page.get_by_text("Who did what").click()
        line = page.locator("details tbody tr").first
        shows(line.locator("td").nth(1), HOSTILE[0])
        assert line.locator("td").all_inner_texts()[2:4] == ["created", "ads"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    finally:
        server.end()


def test_whether_it_is_ready_is_shown(opened, server, url):
    page = opened(url, refusals=True)
    shows(page.locator("#pulse"), "Live")
    why = {"error": {"kind": "storage", "message": "the database does not take writes: <b>"}}
    page.route("**/ready", lambda route: route.fulfill(status=503, json=why))
    page.reload()
    shows(page.locator("#pulse"), "Not ready")
    shows(page.locator("#lost"), "Not ready: the database does not take writes: <b>.")
    page.unroute("**/ready")
    shows(page.locator("#pulse"), "Live")
    assert not page.locator("#lost").is_visible()


# --- many ---


@pytest.mark.parametrize("tickets", [50_000, pytest.param(1_000_000, marks=pytest.mark.soak)])
def test_many_tickets_and_a_bent_theory(opened, tmp_path, tickets):
    stored(tmp_path / "many.db", "many", history(tickets))
    stored(tmp_path / "many.db", "bent", history(3000, lost=5), version=99, expiry_seconds=10, on_expiry=0.0)
    server = Server(tmp_path / "many.db")
    try:
        server.http.timeout = 600  # the first time it counts everything
        numbers = server.statistics("many")
        assert numbers["decisions"] == numbers["feedback"] == tickets and numbers["peak"] == 999
        assert len(numbers["series"]["points"]) <= 500 and len(json.dumps(numbers)) < 60_000
        began = time.perf_counter()
        page = opened(f"{server.http.base_url}#/many")
        shows(tile(page, "Decisions"), {50_000: "50K", 1_000_000: "1M"}[tickets])
        assert time.perf_counter() - began < 30
        assert tile(page, "Decisions").get_attribute("title") == f"{tickets:,}"
        shows(tile(page, "Median delay"), "10 s")
        shows(page.locator(".price .badge"), "a guarantee")

        page.locator(".brand").click()
        page.locator(".spark .line").first.wait_for()
        assert max(len(line.get_attribute("d")) for line in page.locator(".spark .line").all()) < 3000
        shows(page.locator(".one .badge.doubt:visible"), "2 warnings")

        page.locator(".one a", has_text="bent").click()
        shows(page.locator(".title .badge"), "read-only")
        assert "version 99" in page.locator(".notice.bad").inner_text()
        first, second = page.locator(".notice.doubt li").all_inner_texts()
        assert "as if its reward had been 0" in first
        assert "20% of the decisions that ended expired" in second
    finally:
        server.end()


def test_a_thousand_actions_and_twenty_experiments(opened, server, url):
    server.create("wide", actions=[f"action {i}" for i in range(1000)], forecaster="direct(ucb1)")
    server.decide("wide", {"count": 50})
    page = opened(f"{url}/#/wide")
    page.locator("tbody tr").first.wait_for()
    assert page.locator("tbody tr").count() == 30
    page.get_by_role("button", name="Show all 1,000 actions").click()
    assert page.locator("tbody tr").count() == 1000
    for i in range(20):
        server.create(f"more-{i}", **{"actions": ADS["actions"]})
    page.locator(".brand").click()
    page.get_by_label("Find an experiment by name").fill("more-1")
    page.locator(".one", has_text="more-19").wait_for()
    assert page.locator(".one:visible").count() == 11


def test_numbers_that_cannot_be_known_are_not_shown_as_zeros(opened, tmp_path):
    file = tmp_path / "lost.db"
    stored(file, "ads", history(30, width=5))
    store = SQLite(str(file), serve=True)
    with store.write() as session:
        (row,) = session.experiments()
        session.put_folds([(row.id, 10, json.dumps({"format": 7}))])
        session.tell("DELETE FROM events WHERE place <= ?", (5,))  # as after the retention time
    store.close()
    server = Server(file)
    try:
        page = opened(str(server.http.base_url), refusals=True)
        said = page.locator(".one .notice")
        said.wait_for()
        assert "saved in format 7" in said.inner_text()
        assert not page.locator(".one .facts").is_visible() and not page.locator(".one .now").is_visible()
        page.goto(f"{server.http.base_url}#/ads")
        shows(page.locator(".welcome h1"), "No numbers")
        assert "saved in format 7" in page.locator(".welcome").inner_text()
    finally:
        server.end()
