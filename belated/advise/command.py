"""`belated advise`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated

import typer

from belated.errors import InvalidArgument


def mount(app: typer.Typer, plain_errors: Callable[[], AbstractContextManager[None]]) -> None:
    """Add the command to the command line."""

    @app.command()
    def advise(
        actions: Annotated[int | None, typer.Option(help="How many there are.")] = None,
        delays: Annotated[str | None, typer.Option(help='A law, such as "geometric(100)".')] = None,
        log: Annotated[
            Path | None, typer.Option(help="Or a log (CSV, Parquet, JSON lines) whose delays are drawn from.")
        ] = None,
        decided: Annotated[str | None, typer.Option(help="Column of the log: when the decision was made.")] = None,
        observed: Annotated[str | None, typer.Option(help="Column: when its feedback came; empty if not.")] = None,
        action: Annotated[str | None, typer.Option(help="Column: the action, so that --actions is known.")] = None,
        reward: Annotated[str | None, typer.Option(help="Column: the reward, so that --rewards are known.")] = None,
        unit: Annotated[str | None, typer.Option(help="What numbers are: rounds, s, ms, us, ns.")] = None,
        drift: Annotated[str, typer.Option(help="none, switching or walk.")] = "none",
        every: Annotated[
            int | None, typer.Option(help="Rounds from one switch to the next, or of a walk; 1000 by itself.")
        ] = None,
        rewards: Annotated[str | None, typer.Option(help="What actions pay on average: 0.2,0.5,0.9.")] = None,
        rounds: Annotated[int, typer.Option(help="How long is played.")] = 10_000,
        feedback: Annotated[str, typer.Option(help="bandit, full, or conversions: only sales are told.")] = "bandit",
        seconds: Annotated[float, typer.Option(help="For simulating, after what is new was compiled.")] = 60.0,
        forecaster: Annotated[
            list[str] | None, typer.Option(help='Who plays, instead: "bold(exp3)"; several may be given.')
        ] = None,
        seed: Annotated[int, typer.Option(min=0)] = 0,
        as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    ) -> None:
        """What should I use? Simulates the candidates in a world that you describe, and ranks them by regret.

        Try: belated advise --actions 10 --delays "geometric(100)"

        Rewards that drift: belated advise --actions 5 --delays "constant(200)" --drift switching --every 2000

        Sales: belated advise --rewards 0.01,0.02,0.03 --delays "geometric(500)" --feedback conversions

        Your own log: belated advise --log events.csv --decided shown_at --observed bought_at --action ad --feedback
        conversions

        Ctrl-C ends it early and prints what there is.
        """
        from belated.advise import advise as advised

        with plain_errors():
            found = advised(
                actions,
                delays,
                log=log,
                decided=decided,
                observed=observed,
                action=action,
                reward=reward,
                unit=unit,
                drift=drift,
                every=every,
                rewards=None if rewards is None else _numbers(rewards),
                rounds=rounds,
                feedback=feedback,
                seconds=seconds,
                forecasters=forecaster or (),
                seed=seed,
            )
        typer.echo(found.to_json() if as_json else found.summary())


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise InvalidArgument(f"rewards are numbers with commas between, such as 0.2,0.5, got {text!r}") from None
