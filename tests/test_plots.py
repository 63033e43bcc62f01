"""Figures of regret: what stands where, in one style, from results, studies and TOML."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import belated as bl
from belated.errors import InvalidArgument
from belated.report import figures
from belated.report.labels import families
from belated.report.look import Look
from belated.report.plots import plot
from belated.report.positions import position
from belated.studies import Play, Study, StudyProblems
from belated.theory.intervals import reach

GAME = bl.games.Bernoulli([0.3, 0.5, 0.7])
RULES = [bl.BOLD(bl.UCB1(3)), bl.QPMD(bl.UCB1(3)), bl.DelayedUCB1(3), bl.DelayedKLUCB(3), bl.BOLD(bl.Exp3(3))]
RULES.append(bl.Direct(bl.Exp3(3)))
MEANS = (1, 3, 10, 30, 100, 200, 300, 1000)
LAWS = [make(mean) for make in (bl.delays.Constant, lambda m: bl.delays.Geometric(mean=m)) for mean in MEANS]
LAWS += [bl.delays.Pareto(mean=mean) for mean in MEANS]


@pytest.fixture(scope="module")
def played():
    return bl.play(RULES[2], GAME, bl.delays.Constant(3), rounds=120, replications=5)


@pytest.fixture
def cells(played):
    """Cells with results that were not played: what is drawn is decided here."""

    def made(rules=RULES, laws=LAWS, regret=None, rounds=10_000, expiry=None):
        shape = played.regret.shape
        noise = 1 + 0.1 * np.random.default_rng(0).random(shape)
        pairs = []
        for number, rule in enumerate(rules):
            for law in laws:
                cell = Play(rule, GAME, law, rounds, 20, 0, expiry)
                level = 50.0 * (1 + number) if regret is None else regret
                pairs.append((cell, replace(played, setting=cell, regret=level * noise * played.checkpoints / 120)))
        return pairs

    return made


def texts(figure):
    return "\n".join(each.get_text() for each in figure.texts)


def ticks(axis):
    return [label.get_text() for label in axis.get_ticklabels() if label.get_text()]


def boxes(figure):
    """Where the panels and the legend are, in dots."""
    figure.draw_without_rendering()
    (legend,) = figure.legends
    return [axes.get_window_extent() for axes in figure.axes], legend.get_window_extent()


# --- "show how delay affects the regret of each algorithm" ---


def test_six_algorithms_eight_delays_three_laws(cells):
    figure = plot(cells(), Look("delay"))
    assert [axes.get_title() for axes in figure.axes] == ["constant", "geometric", "pareto"]
    for axes in figure.axes:
        assert [len(line.get_xdata()) for line in axes.get_lines()] == [8] * 6
        assert (
            len({line.get_color() for line in axes.get_lines()}) == len({m.get_marker() for m in axes.get_lines()}) == 6
        )
        assert axes.get_xlim() == figure.axes[0].get_xlim() and axes.get_ylim() == figure.axes[0].get_ylim()
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert len(names) == 6 and names[:2] == ["bold(ucb1)", "qpmd(ucb1)"]
    said = texts(figure)
    for part in ("bernoulli([0.3, 0.5, 0.7])", "10,000 rounds", "95% confidence", "5 replications", "mean delay"):
        assert part in said, part
    panels, below = boxes(figure)
    assert all(below.y1 < panel.y0 for panel in panels), "the legend stands below, not over the curves"
    whole = figure.bbox
    assert below.x0 >= 0 and below.x1 <= whole.x1 and below.y0 >= 0
    for each in figure.texts:
        assert each.get_window_extent().x1 <= whole.x1 and each.get_window_extent().y1 <= whole.y1


def test_the_example_asks_for_the_same(cells):
    study = Study.read(Path(__file__).parent.parent / "examples" / "delay.toml")
    assert len(study.cells) == 144 and study.figures == (Look("delay", by="law"),)
    assert len({type(cell.delays) for cell in study.cells}) == 3


def test_without_panels_a_dash_for_each_law(cells):
    figure = plot(cells(), Look("delay", by=()))
    assert len(figure.axes) == 1 and len(figure.axes[0].get_lines()) == 18
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 6 + 3


def test_panels_by_anything(cells):
    assert len(plot(cells(), Look("delay", by="forecaster")).axes) == 6
    assert len(plot(cells(RULES[:2], LAWS[:4]), Look("round")).axes) == 4
    both = plot(cells(RULES[:2]), Look("delay", by=["law", "forecaster"]))
    assert both.axes[0].get_title() == "constant, bold(ucb1)"
    with pytest.raises(InvalidArgument, match="144 panels"):
        plot(cells(), Look("round", by=["delays", "forecaster"]))


@pytest.mark.parametrize("legend", ["below", "right", "inside", "none", False])
def test_the_legend_stands_where_it_is_asked_for(cells, legend):
    figure = plot(cells(RULES, LAWS[:8]), Look("delay", legend=legend))
    inside = figure.axes[0].get_legend()
    assert (inside is not None) == (legend == "inside") and bool(figure.legends) == (legend in ("below", "right"))
    if legend == "right":
        (panel,), box = boxes(figure)
        assert box.x0 > panel.x1 and box.x1 <= figure.bbox.x1


# --- x ---


def test_laws_without_a_mean_stand_at_infinity_and_are_named(cells):
    laws = [*LAWS[:3], bl.delays.Pareto(scale=10, alpha=0.8), bl.delays.Lossy(bl.delays.Constant(5), 0.1)]
    figure = plot(cells(RULES[:2], laws), Look("delay", by=()))
    assert "∞" in ticks(figure.axes[0].xaxis)
    assert "At ∞: pareto(scale=10, alpha=0.8), lossy(constant(5), 0.1)" in texts(figure)
    far = figure.axes[0].get_xlim()[1]
    assert far > 10 and all(np.isfinite(line.get_xdata()).all() for line in figure.axes[0].get_lines())


def test_what_has_no_place_is_said_to_be_left_out(cells):
    trace = bl.delays.PerAction([bl.delays.Constant(1), bl.delays.Constant(2), bl.delays.Constant(9)])
    figure = plot(cells(RULES[:2], [*LAWS[:3], trace]), Look(0.5))
    assert "Left out: peraction(" in texts(figure) and "its delays look at what is\nplayed" in texts(figure)
    with pytest.raises(InvalidArgument, match=r"no cell has a place on the axis 0\.5"):
        plot(cells(RULES[:1], [trace]), Look(0.5))


def test_places_by_peak_quantile_and_loss(played):
    def at(law, x, expiry=None):
        return position(Play(RULES[0], GAME, law, 100, expiry=expiry), played, x)

    assert at(LAWS[0], "peak") == played.peak.mean() and at(bl.delays.Constant(7), 0.9) == 7
    lossy = bl.delays.Lossy(bl.delays.Lossy(bl.delays.Constant(5), 0.5), 0.2)
    assert at(lossy, "loss") == pytest.approx(0.6) and at(lossy, "delay") == math.inf
    assert at(bl.delays.Constant(7), "loss") == 0.0 and at(bl.delays.Constant(7), "loss", expiry=6) == 1.0
    assert at(bl.delays.Empirical([0, bl.NEVER]), "loss") == pytest.approx(0.5, abs=0.05)


def test_families():
    lossy = [bl.delays.Lossy(bl.delays.Constant(d), p) for d in (1, 9) for p in (0.1, 0.2)]
    assert families(lossy) == ["lossy(p=0.1)", "lossy(p=0.2)"] * 2
    assert families(lossy, "p") == ["lossy(constant(1))"] * 2 + ["lossy(constant(9))"] * 2
    assert families([bl.delays.Constant(1), bl.delays.Constant(2)], "p") == ["constant(1)", "constant(2)"]


# --- scales ---


def test_logarithmic_scales_by_themselves_and_as_asked(cells):
    assert plot(cells(RULES[:2]), Look("delay")).axes[0].get_xscale() == "log"
    zero = plot(cells(RULES[:2], [bl.delays.Constant(0), *LAWS[:8]]), Look("delay"))
    assert zero.axes[0].get_xscale() == "symlog"
    for log, wanted in ((True, ("log", "log")), (False, ("linear", "linear")), ("y", ("linear", "log"))):
        axes = plot(cells(RULES[:1], LAWS[:8]), Look("delay", log=log)).axes[0]
        assert (axes.get_xscale(), axes.get_yscale()) == wanted
    below = plot(cells(RULES[:1], LAWS[:8], regret=-5.0), Look("delay"))
    assert below.axes[0].get_yscale() == "linear" and below.axes[0].get_ylim()[0] < 0


@pytest.mark.parametrize("high", [300.0, 3e7])
def test_ticks_are_of_one_kind(cells, high):
    figure = plot(cells(RULES[:2], LAWS[:8], regret=high, rounds=10**7), Look("round", log=True, by="law"))
    figure.draw_without_rendering()
    (axes,) = figure.axes
    for axis in (axes.xaxis, axes.yaxis):
        raised = ["10" in text and any(sign in text for sign in "⁰¹²³⁴⁵⁶⁷⁸⁹") for text in ticks(axis)]
        assert raised and len(set(raised)) == 1, ticks(axis)


def test_bands_that_reach_zero_end_on_a_logarithmic_axis():
    _, axes = figures.panel(yscale="log")
    x, mean = np.arange(1.0, 5.0), np.array([1.0, 1.0, 3.0, 4.0])
    figures.fill(axes, x, mean - np.array([0.5, 2.0, 1.0, 1.0]), mean + 1, "#000000")
    (band,) = axes.collections
    drawn = np.concatenate([path.vertices for path in band.get_paths()])
    assert (drawn[:, 1] > 0).all() and not ((drawn[:, 0] > 1.0) & (drawn[:, 0] < 3.0)).any()


def test_the_band_is_that_of_one_value_after_another():
    data = np.random.default_rng(1).exponential(size=(12, 7))
    data[:, 3] = 2.0
    for level in (0.9, 0.95):
        one_by_one = [reach(column, level) for column in data.T]
        assert np.allclose(
            figures.reaches(data, level), np.where(np.isinf(one_by_one), np.nan, one_by_one), equal_nan=True
        )
    assert np.isnan(figures.reaches(data[:1])).all()


# --- one style, own axes, files ---


def test_a_result_is_drawn_in_the_same_style(played, tmp_path):
    figure = played.plot(tmp_path / "x.svg", played)
    assert (tmp_path / "x.svg").stat().st_size > 5000 and "3,0" not in texts(figure)
    for part in ("direct(ucb1)", "constant(3)", "120 rounds", "95%"):
        assert part in texts(figure), part
    assert figure._repr_png_().startswith(b"\x89PNG")
    single = bl.play(RULES[2], GAME, LAWS[0], rounds=50).plot()
    assert "mean of 1 replication" in texts(single) and "bands" not in texts(single)


def test_own_axes_are_drawn_into(cells):
    from matplotlib.figure import Figure

    figure = Figure()
    axes = figure.subplots(1, 3)
    assert plot(cells(RULES[:2]), Look("delay"), axes=axes) is axes
    assert all(len(each.get_lines()) == 2 and "10,000 rounds" in each.get_title().replace("\n", " ") for each in axes)
    assert axes[0].get_legend() is not None and not figure.legends
    with pytest.raises(InvalidArgument, match="axes must be 3 of matplotlib's, one a panel"):
        plot(cells(RULES[:2]), Look("delay"), axes=axes[:2])


@pytest.mark.parametrize(
    ("look", "says"),
    [
        ({"x": "time"}, "x must be one of round, delay, peak, loss, or a number between 0 and 1"),
        ({"x": 2}, "x must be < 1, got 2"),
        ({"by": "colour"}, "by must be one of forecaster, law"),
        ({"by": 3}, "by must be one of"),
        ({"log": "z"}, "log must be one of x, y, xy, none"),
        ({"legend": "above"}, "legend must be one of"),
        ({"level": 95}, "level must be < 1"),
        ({"bounds": "yes"}, "bounds must be True or False"),
        ({"xs": "delay"}, "xs: a figure has no such setting; did you mean 'x'"),
    ],
)
def test_wrong_looks_are_refused_by_name(played, look, says):
    with pytest.raises(InvalidArgument, match=says):
        played.plot(**look)
    study = {"forecasters": "bold(ucb1)", "games": "bernoulli([0.2, 0.8])", "delays": "constant(1)", "rounds": 5}
    with pytest.raises(StudyProblems, match=f"figure: {says}"):
        Study.make(**study, figure=look)


def test_bounds_are_drawn_where_there_is_room_or_when_asked(played):
    assert len(played.plot().axes[0].get_lines()) == 1 + (played.verdict != "vacuous")
    assert len(played.plot(bounds=False).axes[0].get_lines()) == 1
    assert [t.get_text() for t in played.plot(bounds=True).legends[0].get_texts()] == ["direct(ucb1)", "bound"]


def test_panels_against_the_delay_show_one_axis_and_all_their_points(cells):
    """Also a panel of one place, and one where all is at infinity."""
    laws = [bl.delays.Constant(1), bl.delays.Constant(100), bl.delays.Pareto(alpha=0.9, scale=2.0)]
    laws += [bl.delays.Lossy(bl.delays.Constant(5), p) for p in (0.1, 0.3)]
    for x, rows in (("delay", 2), ("peak", 2), ("loss", 2), (0.9, 2), ("delay", 1)):
        pairs = [pair for rounds in (1_000, 5_000)[:rows] for pair in cells(RULES[:2], laws[2:] * rows, rounds=rounds)]
        figure = plot(pairs + cells(RULES[:2], laws[:2]), Look(x=x, log="xy"))
        assert len({axes.get_xlim() for axes in figure.axes}) == 1
        for axes in figure.axes:
            left, right = axes.get_xlim()
            seen = [at for line in axes.get_lines() if line.get_marker() != "None" for at in line.get_xdata()]
            assert seen and all(left < at < right for at in seen)


@pytest.mark.parametrize("x", ["round", "delay"])
def test_what_a_logarithmic_axis_cannot_show_is_said(cells, x):
    pairs = cells(RULES[:2], LAWS[:2]) + cells(RULES[2:3], LAWS[:2], regret=-5.0)
    assert "2 of 6" in texts(plot(pairs, Look(x=x, log="y")))
    assert "of 6" not in texts(plot(pairs, Look(x=x, log="none")))
