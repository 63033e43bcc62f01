"""The client whose calls wait, `bl.Client`. The one whose calls are awaited is made from this text by
`tools/both_clients.py`: change this file, then run that."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, Self, overload

import httpx

from belated.client.answers import (
    Decided,
    Experiment,
    Health,
    Listed,
    Outcome,
    Record,
    Statistics,
    Ticket,
    decided,
    made,
    outcome,
    ticket_of,
)
from belated.client.calls import Common, content_of, data_of, is_silent, new_decisions, new_experiment, path
from belated.client.network import limited, within
from belated.errors import InvalidArgument, ServiceError
from belated.forecasters import Forecaster


class Client(Common):
    """A decision service at a URL. Threads may share a client; it keeps connections open until `close`.

    `timeout` is in seconds and for each try; after the first there are up to `retries` more, after waits that double,
    or as long as the service says (Retry-After). `deadline` is in seconds and for all of them together. What fails in
    the end is a `ServiceError`: with the service's own `kind` and message, or of the kind "unreachable".

    `fallbacks` counts the decisions that were made without the service (see `decide`).
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout: float = 10.0,
        retries: int = 6,
        deadline: float | None = None,
    ) -> None:
        super().__init__(url, token, timeout, retries, deadline)
        self._http = limited(httpx.Client(**self._settings))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the connections go."""
        self._http.close()

    # --- experiments ---

    def create(
        self, name: str, actions: Sequence[str], forecaster: Forecaster | dict[str, Any] | str, **more: Any
    ) -> Experiment:
        """A new experiment. `more` are reward_range, expiry_seconds, on_expiry, seed, limits,
        retention_seconds and features.

        The forecaster is one of ours, such as `bl.BOLD(bl.Exp3(actions=3), seed=7)`, or as the catalog writes it.
        """
        body = new_experiment(name, actions, forecaster, more)
        return made(Experiment, self._call("POST", "/v1/experiments", body, again=False))

    def experiments(self) -> list[Experiment]:
        """All experiments, oldest first."""
        answer = self._call("GET", "/v1/experiments")
        return [made(Experiment, each) for each in answer["experiments"]]

    def experiment(self, name: str) -> Experiment:
        """One experiment."""
        return made(Experiment, self._call("GET", path(name)))

    def archive(self, name: str) -> Experiment:
        """No more decisions; open ones may still end."""
        return made(Experiment, self._call("POST", path(name, "archive")))

    def unarchive(self, name: str) -> Experiment:
        """Decisions again."""
        return made(Experiment, self._call("POST", path(name, "unarchive")))

    def change(self, name: str, **rules: Any) -> Experiment:
        """Other rules: any of expiry_seconds, on_expiry, limits and retention_seconds. The others stay.

        Decisions that are open keep the time when they expire.
        """
        return made(Experiment, self._call("PATCH", path(name), rules))

    def delete(self, name: str, *, confirm: str) -> None:
        """Delete an experiment with all its data, for good; `confirm` is its name again."""
        if confirm != name:
            raise InvalidArgument(f"to delete {name!r} with all its data, confirm must be that name, got {confirm!r}")
        self._call("DELETE", path(name), again=False)

    def replace(self, name: str, action: str, new: str) -> Experiment:
        """Retire an action; a new one takes its place."""
        body = {"action": action, "new": new}
        return made(Experiment, self._call("POST", path(name, "replacements"), body, again=False))

    def add_action(self, name: str, new: str) -> Experiment:
        """One more action, unknown to the learner. Not every learner can do it."""
        return made(Experiment, self._call("POST", path(name, "actions"), {"name": new}, again=False))

    def statistics(self, name: str) -> Statistics:
        """How an experiment went so far."""
        return made(Statistics, self._call("GET", path(name, "statistics")))

    # --- decisions ---

    @overload
    def decide(
        self,
        name: str,
        context: Any = ...,
        *,
        allowed: Sequence[str] | None = ...,
        key: str | None = ...,
        fallback: str | None = ...,
        deadline: float | None = ...,
    ) -> Decided: ...

    @overload
    def decide(
        self,
        name: str,
        *,
        count: int,
        allowed: Sequence[str] | None = ...,
        key: str | None = ...,
        fallback: str | None = ...,
        deadline: float | None = ...,
    ) -> list[Decided]: ...

    @overload
    def decide(
        self,
        name: str,
        *,
        contexts: Sequence[Any],
        allowed: Sequence[str] | None = ...,
        key: str | None = ...,
        fallback: str | None = ...,
        deadline: float | None = ...,
    ) -> list[Decided]: ...

    def decide(
        self,
        name: str,
        context: Any = None,
        *,
        count: int | None = None,
        contexts: Sequence[Any] | None = None,
        allowed: Sequence[str] | None = None,
        key: str | None = None,
        fallback: str | None = None,
        deadline: float | None = None,
    ) -> Decided | list[Decided]:
        """One decision; with `count` or `contexts` a list of them. `allowed` names the actions that are eligible now.

        The same `key` gets the same decisions again, for a day at least; without one each call has its own.

        With a `fallback`, the name of an action, there is always an answer: where the service gives none within the
        deadline (this call's, or the client's), fails, or says "later" to the end, that action is it. It is marked
        (`fallback`), has no ticket, and takes no feedback; it is logged, counted in `fallbacks`, and the service is
        told how many there were with the next decision of the experiment. What is wrong with the call itself is an
        error still.
        """
        body, several = new_decisions(context, count, contexts, allowed, fallback, deadline)
        headers = self._take_owed(name)
        given = {"idempotency-key": key or secrets.token_hex(16), **headers}
        try:
            answer = self._call("POST", path(name, "decisions"), body, headers=given, deadline=deadline)
        except BaseException as error:
            self._owe(name, headers)
            if fallback is None or not isinstance(error, ServiceError) or not is_silent(error):
                raise
            return self._fall_back(name, fallback, several, error)
        return decided(answer)

    @overload
    def feedback(self, name: str, ticket: Ticket, value: Any) -> Outcome: ...

    @overload
    def feedback(self, name: str, ticket: Sequence[tuple[Ticket, Any]]) -> list[Outcome]: ...

    def feedback(self, name: str, ticket: Any, value: Any = None) -> Outcome | list[Outcome]:
        """The value of a decision; or a list of pairs of ticket and value, where a bad one harms no other.

        If the answer to a first try was lost, the status is "duplicate": the value is learned once.
        """
        if isinstance(ticket, Ticket):
            body = {"ticket": ticket_of(ticket), "value": value}
            return outcome(self._call("POST", path(name, "feedback"), body))
        listed = Listed([(each, {"value": one}) for each, one in ticket])
        return self._send(path(name, "feedback"), listed)

    @overload
    def cancel(self, name: str, ticket: Ticket) -> Outcome: ...

    @overload
    def cancel(self, name: str, ticket: list[str] | list[Decided]) -> list[Outcome]: ...

    def cancel(self, name: str, ticket: Any) -> Outcome | list[Outcome]:
        """The decision was never shown: nothing is learned. Or a list of tickets."""
        if isinstance(ticket, Ticket):
            return outcome(self._call("POST", path(name, "cancellations"), {"ticket": ticket_of(ticket)}))
        return self._send(path(name, "cancellations"), Listed([(each, {}) for each in ticket]))

    def decision(self, name: str, ticket: Ticket) -> Record:
        """A decision as it is on record, with its feedback if there is any."""
        return made(Record, self._call("GET", path(name, "decisions", ticket_of(ticket))))

    def health(self) -> Health:
        """How the service is; it needs no token."""
        return made(Health, self._call("GET", "/health"))

    # --- how a call is made ---

    def _send(self, where: str, listed: Listed) -> list[Outcome]:
        if listed.idle:
            return listed.outcomes([])
        answer = self._call("POST", where, listed.body)
        return listed.outcomes(answer["results"])

    def _call(
        self,
        method: str,
        where: str,
        body: Any = None,
        *,
        headers: dict[str, str] | None = None,
        again: bool = True,
        deadline: float | None = None,
    ) -> Any:
        """The answer as data. Without `again` a call is repeated only if the service has certainly done nothing."""
        content, tries = content_of(body), self._tries(again, deadline)
        while True:
            seconds = tries.seconds
            try:
                with within(seconds):
                    answer = self._http.request(
                        method, self.url + where, content=content, headers=headers, timeout=seconds
                    )
            except (httpx.TransportError, TimeoutError) as error:
                wait = tries.failed(error)
            else:
                if answer.is_success:
                    return data_of(answer)
                wait = tries.refused(answer)
            time.sleep(wait)
