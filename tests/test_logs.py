"""One reader of logs: wherever they are, however they are written, in one table or in two."""

import gzip
import json
from datetime import UTC, datetime, timedelta
from functools import cache

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import belated as bl
from belated.audit.log import read
from belated.cli import app
from belated.errors import BelatedError, InvalidArgument, Unsupported
from belated.ledger.database import open_store
from belated.ledger.experiment import make
from belated.ledger.export import export
from belated.ledger.items import Cancel, Create, Decide, Feedback, ticket_of
from belated.ledger.ledger import Ledger
from belated.logs.source import Shelf, scan
from belated.replay import read_log

START = datetime(2026, 1, 1)
AT = {"decided": "at", "observed": "seen"}


@cache
def events(rows=300):
    """Decisions a minute apart, among three; of every third, feedback within the hour."""
    draws = np.random.default_rng(0)
    at = [START + timedelta(minutes=i) for i in range(rows)]
    seen = [moment + timedelta(minutes=int(draws.integers(60))) if i % 3 == 0 else None for i, moment in enumerate(at)]
    taken = draws.integers(3, size=rows)
    chances = [1 / 3] * rows
    columns = {"id": [f"c{i}" for i in range(rows)], "at": at, "seen": seen, "ad": taken, "p": chances}
    return pl.DataFrame(columns).with_columns(won=pl.when(pl.col("seen").is_not_null()).then(pl.lit(1.0)))


def counts(found):
    return found.decisions, found.came, found.first, found.as_of, found.longest


# --- where it is ---


class Relation:
    """What hands over Arrow in pieces, and once, as a DuckDB relation does."""

    def __init__(self, frame):
        self.frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        assert self.frame is not None, "it can be had once"
        frame, self.frame = self.frame, None
        table = frame.to_arrow()
        reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=100))
        return reader.__arrow_c_stream__(requested_schema)


class Older:
    """What only has a method for it."""

    def __init__(self, frame):
        self.frame = frame

    def arrow(self):
        return self.frame.to_arrow()


def test_frames_of_every_kind_say_the_same():
    frame, names = events(), {"action": "ad", "reward": "won"}
    whole = counts(read(frame, **AT, **names))
    pandas = frame.to_pandas()
    rows = frame.to_dicts()
    sources = [frame.lazy(), pandas, pandas.set_index("at"), frame.to_arrow(), Relation(frame), Older(frame)]
    sources += [frame.to_dict(as_series=False), rows, {name: frame[name].to_numpy() for name in frame.columns}]
    for source in sources:
        assert counts(read(source, **AT, **names)) == whole, type(source)


def test_what_comes_once_is_kept_while_it_is_needed():
    shelf = Shelf()
    found = scan(Relation(events()), shelf=shelf)
    path = shelf._folder
    assert found.collect().height == found.collect().height == 300 and path.is_dir()
    del shelf
    assert not path.exists()


def test_files_folders_and_patterns_say_the_same(tmp_path):
    frame = events()
    whole = counts(read(frame, **AT))
    text = frame.write_csv().encode()
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(text))
    with pa.CompressedOutputStream(str(tmp_path / "log.csv.zst"), "zstd") as out:
        out.write(text)
    frame.write_csv(tmp_path / "log.tsv", separator="\t")
    (tmp_path / "log.jsonl.gz").write_bytes(gzip.compress(frame.write_ndjson().encode()))
    frame.write_parquet(tmp_path / "log.pq")
    names = ["log.csv.gz", "log.csv.zst", "log.tsv", "log.jsonl.gz", "log.pq"]
    parts = tmp_path / "parts"
    for place, hour in enumerate(range(0, 300, 60)):
        folder = parts / f"hour={place}"
        folder.mkdir(parents=True)
        frame[hour : hour + 60].write_parquet(folder / "part.parquet")
        frame[hour : hour + 60].write_csv(tmp_path / f"day-{place}.csv")
    (parts / "_SUCCESS").write_text("")
    (parts / ".part.crc").write_text("x")
    for name in names:
        assert counts(read(tmp_path / name, **AT)) == whole, name
    for source in (parts, str(parts / "**" / "*.parquet"), f"{tmp_path}/day-*.csv", sorted(tmp_path.glob("day-*.csv"))):
        assert counts(read(source, **AT)) == whole, source
    assert read(parts, **AT, action="hour").actions == ("0", "1", "2", "3", "4")


def test_parts_of_a_data_set_need_not_agree_in_every_type(tmp_path):
    pl.DataFrame({"d": [1, 2], "o": [None, None]}).write_parquet(tmp_path / "a.parquet")
    pl.DataFrame({"o": [4, 5], "d": [3, 4]}, schema_overrides={"d": pl.Int32}).write_parquet(tmp_path / "b.parquet")
    pl.DataFrame({"d": [5], "o": [6], "more": ["x"]}).write_parquet(tmp_path / "c.parquet")
    found = read(tmp_path, "d", "o")
    assert (found.decisions, found.came, found.last) == (5, 3, 5)


def test_sources_that_cannot_be_are_told(tmp_path):
    (tmp_path / "none").mkdir()
    (tmp_path / "two").mkdir()
    events().write_csv(tmp_path / "two" / "a.csv")
    events().write_parquet(tmp_path / "two" / "b.parquet")
    (tmp_path / "semicolons.csv").write_text("at;seen\n2026-01-01;2026-01-02\n")
    for source, message in (
        (tmp_path / "none", "holds no file that ends in one of .csv"),
        (tmp_path / "two", "must be of one kind, 'a.csv' is csv, 'b.parquet' is parquet"),
        (tmp_path / "x*.csv", "no file is called"),
        ("nowhere://here/log.parquet", "the address 'nowhere://here/log.parquet' cannot be read: "),
        ("s3://here/log", "the format of the address 's3://here/log' must be given"),
        (tmp_path / "semicolons.csv", "columns must be separated by commas"),
        (object(), "got object: there is no way to its rows"),
        ({"at": [1, 2], "seen": [1]}, "got dict: "),
    ):
        with pytest.raises(InvalidArgument) as caught:
            read(source, **AT)
        assert message in str(caught.value)


# --- how times are written ---


def test_dates_are_read_the_same_way_everywhere(tmp_path):
    """Replay once read 31/12/2024, and took 03/04/2024 for the third of April."""
    rows = 90
    days = [START + timedelta(days=i % 28) for i in range(rows)]
    frame = pl.DataFrame({"action": [0, 1, 2] * 30, "probability": 1 / 3, "value": [0.0, 1.0, 0.5] * 30})
    for form in ("%d/%m/%Y", "%m/%d/%Y %H:%M", "%Y%m%d"):
        text = [day.strftime(form) for day in days]
        log = frame.with_columns(decided_at=pl.Series(text), closed_at=pl.Series(text))
        log.write_csv(tmp_path / "log.csv")
        wanted = "time_format='%Y%m%d' or unit='rounds'" if form == "%Y%m%d" else "times must be ISO"
        for call in (read_log, read, bl.audit):
            for source in (log, tmp_path / "log.csv"):
                with pytest.raises(InvalidArgument) as caught:
                    call(source)
                assert wanted in str(caught.value)
        assert read(tmp_path / "log.csv", time_format=form).last == read(log, time_format=form).last
        made = read_log(tmp_path / "log.csv", time_format=form)
        assert made.order.tolist() == np.argsort(days, kind="stable").tolist()
    whole = frame.with_columns(decided_at=pl.Series([20260101 + i % 28 for i in range(rows)])).with_columns(
        closed_at="decided_at"
    )
    assert read(whole, unit="rounds").last == 20260128
    assert read(whole, time_format="%Y%m%d").last == read(log, time_format="%Y%m%d").last
    assert read_log(whole, time_format="%Y%m%d").order.tolist() == made.order.tolist()
    with pytest.raises(InvalidArgument, match="give one"):
        read(whole, time_format="%Y%m%d", unit="s")


def test_clocks_that_differ_are_not_mixed():
    frame = pl.DataFrame({"at": [1_700_000_000, 1_700_000_100], "seen": [1_700_000_050_000, None]})
    with pytest.raises(InvalidArgument, match=r"one clock: 'at' \(1700000000, ...\) looks like s, 'seen' .* like ms"):
        read(frame, **AT)
    moments = pl.DataFrame({"at": [20260131120000], "seen": [20260131130000]})
    with pytest.raises(InvalidArgument, match="time_format='%Y%m%d%H%M%S'"):
        read(moments, **AT)
    assert read(moments, **AT, time_format="%Y%m%d%H%M%S").longest == 3600 * 10**6


def test_numbers_and_actions_as_text(tmp_path):
    rows = [f"{i % 3 - 1},{1 / 3},{'true' if i % 2 else 'FALSE'},{i},{'NA' if i % 7 else i}" for i in range(300)]
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["action,probability,value,decided_at,closed_at", *rows]))
    made = read_log(path, reward="value", observed="decided_at")
    assert made.labels == ("-1", "0", "1") and made.reward.tolist() == [i % 2 for i in range(300)]
    assert "the actions of the log are -1, 0, 1" in made.warnings[0]
    found = read(path, action="action", reward="value")
    assert found.actions == ("-1", "0", "1") and found.means is not None and found.came == 43
    path.write_text(path.read_text() + "\n10,0.3333,maybe,300,301\n")
    assert read(path, action="action", reward="value").excluded == {"reward is no number": 1}
    with pytest.raises(InvalidArgument, match=r"value must hold rewards, got 'maybe' \(1 such rows\)"):
        read_log(path, observed="decided_at")


# --- two tables ---


def two(rows=300):
    """The same log as clicks and sales: some twice, some of nobody."""
    frame = events(rows)
    sales = frame.drop_nulls("seen").select("id", "won", time="seen")
    later = sales[:7].with_columns(pl.col("time") + timedelta(days=9), won=pl.lit(0.25))
    strangers = sales[:4].with_columns(id=pl.lit("stranger"))
    return frame.drop("seen", "won"), pl.concat([later, sales, strangers])


def test_two_tables_are_one():
    frame, (clicks, sales) = events(), two()
    for left, right in ((clicks, sales), (clicks.to_pandas(), sales.lazy()), (clicks.to_dict(), Relation(sales))):
        found = read(left, "at", "time", "ad", "won", feedback=right, on="id", as_of=START + timedelta(days=1))
        assert counts(found)[:3] == counts(read(frame, **AT))[:3] and found.spread == (1.0, 1.0)
        assert found.excluded == {
            "feedback after the first of its decision": 7,
            "feedback of no decision in the log": 4,
        }
    renamed = sales.rename({"id": "click"})
    assert read(clicks, "at", "time", feedback=renamed, on="id=click").came == 100
    both = clicks.rename({"at": "time"})  # both tables call it so
    assert read(both, "time", "time", feedback=sales, on="id").came == 100


def test_ids_of_other_types_meet(tmp_path):
    clicks, sales = two()
    number = pl.col("id").str.extract(r"(\d+)")
    clicks, sales = (each.with_columns(id=number.cast(pl.Int64)) for each in (clicks, sales))
    clicks.write_csv(tmp_path / "clicks.csv")
    fractions = sales.to_pandas()  # with those that are missing they are no whole numbers any more
    for left, right in ((tmp_path / "clicks.csv", sales), (clicks, fractions), (tmp_path / "clicks.csv", fractions)):
        found = read(left, "at", "time", feedback=right, on="id")
        assert found.came == 100 and found.excluded["feedback without an id"] == 4


def test_tables_that_do_not_fit_are_told():
    clicks, sales = two()
    for changed, message in (
        ({"on": None}, "feedback and on go together"),
        ({"feedback": None}, "feedback and on go together"),
        ({"on": "ids"}, "on: the log has no column 'ids'; did you mean 'id'?"),
        ({"on": "id=click"}, "on: the feedback has no column 'click'"),
        ({"observed": "seen"}, "the feedback has no column 'seen' for observed"),
        (
            {"feedback": sales.with_columns(id=pl.lit("x"))},
            "no feedback has the 'id' of a decision: 'x' in the feedback",
        ),
        (
            {"feedback": sales.with_columns(time=pl.lit("soon"))},
            "the feedback has no time that can be read in 111 of 111",
        ),
        ({"source": pl.concat([clicks, clicks])}, "'id' must be another one in each decision: 200 decisions share"),
    ):
        asked = {"source": clicks, "decided": "at", "observed": "time", "feedback": sales, "on": "id"} | changed
        with pytest.raises(InvalidArgument) as caught:
            read(**asked)
        assert message in str(caught.value)
    clicks, sales = two(1000)
    again = pl.concat([clicks, clicks.filter(pl.col("id") == "c0")])
    found = read(again, "at", "time", feedback=sales, on="id")
    assert found.excluded["decisions with the id of others"] == 2 and found.decisions == 999


# --- until when a decision was watched ---


def test_a_window_ends_the_wait():
    frame, hour = events(), 3600 * 10**6
    found = bl.audit(frame, **AT, window="30min")
    early = frame.filter(pl.col("seen") - pl.col("at") <= timedelta(minutes=30))
    assert found.log.came == early.height and found.log.longest <= hour / 2
    late = 100 - early.height
    assert found.log.excluded == {"feedback after its decision was watched (which counts as one without)": late}
    assert found.log.open == found.data()["outstanding"]["at_end"] <= 31 and found.peak <= 31
    assert found.log.ended == 300 - found.log.came - found.log.open
    assert f"watched no longer, without feedback: {found.log.ended} decisions" in found.summary()
    assert found.curve.delays[-1] <= hour / 2 + 1 and found.curve.never == pytest.approx(2 / 3, abs=0.2)
    ends = frame.with_columns(until=pl.col("at") + timedelta(minutes=30))
    column = read(ends, **AT, watched="until")
    assert (column.came, column.ended) == (found.log.came, 300 - found.log.came)
    rounds = pl.DataFrame({"d": range(20), "o": [i + i % 5 for i in range(20)]})
    assert read(rounds, "d", "o", window=2).came == read(rounds, "d", "o", window="2").came == 12
    for window, message in ((7, "window must say what it is in"), ("0d", "window must be > 0"), ("soon", "such as 7d")):
        with pytest.raises(InvalidArgument, match=message):
            read(frame, **AT, window=window)
    with pytest.raises(
        InvalidArgument, match=r"'until' cannot be read in 300 of 300 rows; times must be ISO.*, got 'x'"
    ):
        read(frame.with_columns(until=pl.lit("x")), **AT, watched="until")
    with pytest.raises(InvalidArgument, match="'until' is before 'at' in 300 of 300 rows"):
        read(frame.with_columns(until=pl.col("at") - timedelta(days=1)), **AT, watched="until")


def test_the_share_that_comes_is_found_whenever_watching_ends():
    """Half never comes, the rest within 50 rounds; each decision is watched for another while."""
    draws = np.random.default_rng(3)
    at, wait = np.arange(20_000), draws.integers(50, size=20_000)
    until = at + draws.integers(5, 100, size=20_000)
    came = (draws.random(20_000) < 0.5) & (at + wait <= until)
    frame = pl.DataFrame({"d": at, "o": pl.Series(at + wait), "w": until})
    frame = frame.with_columns(o=pl.when(pl.Series(came)).then("o"))
    found = bl.audit(frame, decided="d", observed="o", watched="w")
    low, high = found.curve.never_band
    assert low < 0.5 < high < 0.55 and found.log.open < 100
    assert bl.audit(frame, decided="d", observed="o").curve.never > 0.6, "without it, what was not watched was lost"


def test_rewards_that_do_not_come_are_worth_a_default():
    clicks, sales = two(3000)
    columns = {"action": "ad", "probability": "p", "reward": "won", "decided": "at", "observed": "time"}
    asked = columns | {"feedback": sales, "on": "id"}
    with pytest.raises(Unsupported, match="say with default what no feedback is worth"):
        read_log(clicks, **asked)
    with pytest.raises(InvalidArgument, match="say with window or watched"):
        read_log(clicks, **asked, default=0)
    with pytest.raises(InvalidArgument, match="default must be <= 1, got 2"):
        read_log(clicks, **asked, default=2, window="1h")
    assert not np.isnan(read_log(clicks, **asked, default=0, window="1h").reward).any(), "some came days later"
    asked["feedback"] = sales.filter(pl.col("won") == 1)
    log = read_log(clicks, **asked, default=0, window="1h")
    known = ~np.isnan(log.reward)
    last = max(asked["feedback"]["time"].max(), clicks["at"].max())
    complete = (clicks["at"] + timedelta(hours=1) <= last).to_numpy()
    assert (known == complete).all() and log.reward[known].mean() == pytest.approx(1 / 3, abs=1e-3)
    assert log.wait[:3].tolist() == [*log.wait[:1], 60, 60] and log.outstanding <= 60
    bare = read_log(clicks, **(asked | {"decided": None, "observed": None}), default=0)
    assert bare.reward.mean() == pytest.approx(1 / 3, abs=1e-3) and "come at once" in " ".join(bare.warnings)


# --- our own export ---


def test_what_was_cancelled_is_no_feedback(tmp_path):
    ledger = Ledger(open_store(str(tmp_path / "ledger.db"), serve=True))
    spec = make("ads", ["red", "green"], "bold(epsilongreedy(epsilon=0.6))", seed=3)
    (experiment,) = ledger.serve([Create(spec, ledger.prepare(spec))])
    (decided,) = ledger.serve([Decide(experiment, [None] * 100)])
    tickets = [ticket_of(each.ticket) for each in decided]
    ledger.serve([Feedback(experiment, [(ticket, 1.0) for ticket in tickets[:30]])])
    ledger.serve([Cancel(experiment, tickets[30:90])])
    path = tmp_path / "ads.parquet"
    export(ledger.store, "ads", path)
    ledger.store.close()
    found = bl.audit(path, action="name", reward="value")
    assert (found.log.came, found.log.ended, found.log.open) == (30, 60, 10)
    pl.read_parquet(path).drop("allowed", "context", "remarks").write_csv(tmp_path / "ads.csv")
    assert bl.audit(tmp_path / "ads.csv").log.came == 30
    ends = pl.read_parquet(path).with_columns(until=pl.col("decided_at") + timedelta(days=1))
    assert bl.audit(ends, watched="until").log.came == 30, "and where another column says until when"
    made = read_log(path)
    assert (~np.isnan(made.reward)).sum() == 30 and (made.wait == bl.NEVER).sum() == 10


@pytest.mark.parametrize("state", [pl.lit(7), pl.lit("CA"), pl.lit(True), pl.lit(1.5)])
def test_a_column_state_of_others_is_left_alone(state):
    """A number in it was a TypeError."""
    frame = pl.DataFrame(
        {"action": [0, 1] * 50, "probability": 0.5, "value": [0.0, 1.0] * 50, "decided_at": range(100)}
    )
    frame = frame.with_columns(closed_at="decided_at", state=state)
    assert not read_log(frame).warnings and read(frame).came == 100


# --- words as side information ---


def test_words_are_side_information():
    draws = np.random.default_rng(1)
    where, taken = draws.integers(3, size=3000), draws.integers(3, size=3000)
    words = np.array(["us", "de", "fr"])[where]
    best = np.array([2, 0, 1])[where]  # in the order of the alphabet: de, fr, us
    won = (draws.random(3000) < np.where(taken == best, 0.9, 0.1)).astype(float)
    frame = pl.DataFrame({"action": taken, "probability": 1 / 3, "value": won, "country": words, "age": where * 1.0})
    log = read_log(frame, context="country")
    assert log.context.shape == (3000, 3) and (log.context.sum(axis=1) == 1).all()
    assert log.kinds[:, 0].tolist() == [sorted(["us", "de", "fr"]).index(word) for word in words]
    asked = ["direct(percontext(ucb1))", "direct(linucb)", "direct(ucb1)"]
    each, linear, blind = bl.replay(log, asked, runs=2).answers
    assert each.value.low > 0.5 and linear.value.low > 0.5 and blind.value.high < 0.6
    assert "contexts=3" in each.forecaster or "percontext" in each.forecaster
    both = read_log(frame, context=["country", "age"])
    assert both.context.shape == (3000, 4) and both.kinds is None
    with pytest.raises(Unsupported, match="needs a context of 1 numbers, the log has 4"):
        bl.replay(both, bl.Direct(bl.PerContext(bl.UCB1(3), 3)), runs=2)


# --- the commands ---


def test_the_commands_take_two_tables(tmp_path):
    clicks, sales = two(1500)
    clicks.write_csv(tmp_path / "clicks.csv")
    sales.write_parquet(tmp_path / "sales.parquet")
    shared = [str(tmp_path / "clicks.csv"), "--feedback", str(tmp_path / "sales.parquet"), "--on", "id"]
    shared += ["--decided", "at", "--observed", "time", "--window", "1h", "--action", "ad", "--reward", "won", "--json"]
    told = CliRunner().invoke(app, ["audit", *shared])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["came"] == 500
    told = CliRunner().invoke(app, ["replay", *shared, "--probability", "p", "--default", "0", "--policy", "uniform"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["logger"]["mean"] == pytest.approx(1 / 3, abs=0.01)
    wrong = CliRunner().invoke(app, ["audit", *shared[:3], "--decided", "at", "--observed", "time"])
    assert wrong.exit_code == 1 and "feedback and on go together" in wrong.output


def test_a_pattern_is_one_word_of_the_command(tmp_path):
    for place in range(2):
        events()[place * 150 :][:150].write_csv(tmp_path / f"{place}.csv")
    told = CliRunner().invoke(app, ["audit", f"{tmp_path}/*.csv", "--decided", "at", "--observed", "seen", "--json"])
    assert told.exit_code == 0, told.output
    assert json.loads(told.output)["decisions"] == 300


def test_one_run_is_called_one():
    frame = events().with_columns(value=pl.col("won").fill_null(0.0))
    with pytest.raises(BelatedError, match=r"so that one run would have 10 rounds"):
        bl.replay(frame[:30], "direct(ucb1)", action="ad", probability="p", runs=1)


def test_actions_that_became_fractions_are_whole_again():
    columns = {"action": [3.0, 17.0] * 100, "probability": 0.5, "value": [0.0, 1.0] * 100, "decided_at": range(200)}
    frame = pl.DataFrame(columns).with_columns(closed_at="decided_at")
    assert read_log(frame).labels == ("3", "17")
    holes = frame.with_columns(action=pl.when(pl.col("decided_at") > 0).then("action").otherwise(float("nan")))
    found = read(holes, action="action")
    assert found.actions == ("3", "17") and found.excluded == {"action is missing": 1}
    for role in ("action", "reward"):
        with pytest.raises(InvalidArgument, match="'x' must hold words or numbers, it holds List"):
            read(frame.with_columns(x=pl.lit([1, 2])), **{role: "x"})


def test_moments_without_a_zone_are_utc():
    aware = events().with_columns(pl.col("at").dt.replace_time_zone("UTC").dt.convert_time_zone("Asia/Tokyo"))
    assert counts(read(aware, **AT)) == counts(read(events(), **AT))
    stamps = pd.DataFrame({"at": pd.to_datetime(["2026-01-01"]), "seen": [pd.Timestamp("2026-01-02", tz="UTC")]})
    assert read(stamps, **AT).longest == 86_400 * 10**6
    assert read(stamps, **AT, as_of=datetime(2026, 1, 3).date()).as_of == read(stamps, **AT, as_of="2026-01-03").as_of
    assert read(stamps, **AT).first == round(datetime(2026, 1, 1, tzinfo=UTC).timestamp() * 1e6)
