"""What late labels cost: models of River on data that come with it, told at once, told late (Direct), pooled (BOLD).

python examples/delayed_labels.py
python examples/delayed_labels.py --rows 2310 --shuffles 10 --out docs    (the page in docs, a few minutes)
"""

import argparse
import random
from collections import deque
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from river import datasets, naive_bayes, tree

import belated as bl

MODELS = {"Hoeffding tree": tree.HoeffdingTreeClassifier(), "naive Bayes": naive_bayes.GaussianNB()}
FORECASTERS = {"Direct": bl.Direct, "BOLD": bl.BOLD}
DELAYS = (0, 10, 100, 1000)
READING = """\
A label is the same whatever was predicted, so one model can learn all of them, however late they come. Told late
(Direct) it misses only those that are still on their way. BOLD gives each waiting label a copy of its own: G\\* + 1
copies, each of which learns one label in G\\* + 1, as in its theorem, which charges
(G\\* + 1) f(n / (G\\* + 1)). It is the price of playing a learner that cannot be told late at all: where a model can
be, tell it late.

Another data set was tried first, River's Bananas (5,300 rows, 2 features; 2 shuffles): the same order, with smaller
differences. The tree on its second half: 66.9 % at once; Direct 67.0, 66.5 and 63.3 % at delays 10, 100 and 1000, BOLD
60.9, 55.9 and 51.4 %."""


def hits(forecaster, rows, delay):
    """For each row whether its label was predicted, when labels come `delay` rows late. No prediction is no hit."""
    waiting, found = deque(), []
    for features, label in rows:
        decision = forecaster.predict(features)
        found.append(decision.action == label)
        waiting.append((decision.ticket, label))
        if len(waiting) > delay:
            forecaster.update(*waiting.popleft())
    return np.array(found)


def delays_for(rows):
    return [delay for delay in DELAYS if 2 * delay < len(rows)]


def measure(rows, shuffles):
    """Mean accuracy and its standard error over shuffles, for all rows and for the second half."""
    table = {}
    for name, model in MODELS.items():
        learner = bl.adapters.river.classifier(model)
        for delay in delays_for(rows):
            for how, kind in FORECASTERS.items():
                if delay == 0 and how == "BOLD":
                    continue  # the same, action for action
                accuracy = []
                for shuffle in range(shuffles):
                    mixed = random.Random(shuffle).sample(rows, len(rows))
                    found = hits(kind(learner), mixed, delay)
                    accuracy.append((found.mean(), found[len(found) // 2 :].mean()))
                error = np.std(accuracy, axis=0, ddof=1) / np.sqrt(shuffles)
                table[name, delay, "at once" if delay == 0 else how] = np.mean(accuracy, axis=0), error
    return table


def as_markdown(table, rows, shuffles):
    lines = [
        "# What late labels cost",
        "",
        "River's ImageSegments data: photographs, 18 features, 7 labels. "
        f"{len(rows):,} rows, {shuffles} shuffles: share of labels that were predicted (and its standard error).",
        f"`python examples/delayed_labels.py --rows {len(rows)} --shuffles {shuffles} --out docs` makes this page.",
        "",
        "![accuracy against delay](img/delayed-labels.svg)",
        "",
        "| model | delay | labels | all rows | second half |",
        "| --- | ---: | --- | ---: | ---: |",
    ]
    for (name, delay, how), (mean, error) in table.items():
        cells = (f"{100 * m:.2f} % ({100 * e:.2f})" for m, e in zip(mean, error, strict=True))
        lines.append(f"| {name} | {delay} | {how} | {' | '.join(cells)} |")
    return "\n".join([*lines, "", READING, ""])


def as_figure(table, delays):
    figure = Figure(figsize=(8.4, 3.6), layout="constrained")
    for axes, name in zip(figure.subplots(1, len(MODELS), sharey=True), MODELS, strict=True):
        ideal = table[name, 0, "at once"][0][1]
        axes.axhline(100 * ideal, color="0.4", linestyle="--", linewidth=1, label="at once")
        for how in FORECASTERS:
            points = [table[name, delay, how] for delay in delays]
            mean, error = ([100 * point[i][1] for point in points] for i in (0, 1))
            axes.errorbar(delays, mean, [1.96 * e for e in error], marker="o", capsize=3, label=how)
        axes.set(title=name, xlabel="delay in rows", xscale="log")
    figure.axes[0].set_ylabel("labels predicted, second half, %")
    figure.axes[0].legend()
    for axes in figure.axes:
        axes.grid(alpha=0.3)
    return figure


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--shuffles", type=int, default=2)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    rows = list(datasets.ImageSegments().take(given.rows))
    table = measure(rows, given.shuffles)
    page = as_markdown(table, rows, given.shuffles)
    print(page)
    if given.out is not None:
        (given.out / "img").mkdir(parents=True, exist_ok=True)
        (given.out / "delayed-labels.md").write_text(page)
        as_figure(table, delays_for(rows)[1:]).savefig(
            given.out / "img" / "delayed-labels.svg", metadata={"Date": None}
        )


if __name__ == "__main__":
    main()
