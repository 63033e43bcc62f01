"""Bearer tokens: with scopes, for some experiments or all, for some time or always. Only their digests are stored."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import math
import secrets
import time
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from belated import require
from belated.errors import InvalidArgument
from belated.ledger import access
from belated.ledger.experiment import NAME, check_letters
from belated.ledger.items import By, Record
from belated.ledger.store import Note, Store, Token
from belated.service.limits import Rate

SCOPES = ("decide", "feedback", "read", "admin")
PREFIX = "belated_"
IN_USE = "in use"
#: Who does what is done on the command line.
COMMAND = "the command line"
#: Seconds between writings of when tokens were used and of failed logins, and addresses of those that are named.
PAUSE = 10.0
FEW = 10
#: Seconds that a token may be good for, if not for ever.
LONG = 1e10


@lru_cache(1000)
def is_loopback(host: str) -> bool:
    """Whether only this machine can reach it.

    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("0.0.0.0")
    (True, True, False)
    """
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def digest(token: str) -> bytes:
    """What is stored of a token. (They are random, so one round of SHA-256 is enough.)"""
    return hashlib.sha256(token.encode()).digest()


def create(
    store: Store,
    name: str,
    scopes: list[str],
    experiments: list[str] | None = None,
    seconds: float | None = None,
    rate: float | None = None,
) -> str:
    """A new token, which is shown once; `admin` includes all scopes.

    It is good for these experiments (None: all), for so many seconds, and so many requests a second.
    """
    if not 1 <= len(name) <= 100:
        raise InvalidArgument(f"the name of a token must be 1 to 100 letters, got {name!r}")
    check_letters("the name of a token", name)
    for scope in scopes:
        require.one_of("scope", scope, SCOPES)
    if not scopes:
        raise InvalidArgument(f"a token needs a scope: {', '.join(SCOPES)}")
    for each in experiments or ():
        if not NAME.fullmatch(each):
            raise InvalidArgument(f"no experiment can be called {each!r}")
    lives = None if seconds is None else require.real("the time that a token is good for", seconds, above=0, high=LONG)
    rate = None if rate is None else require.real("rate", rate, above=0)
    only = json.dumps(experiments) if experiments else None
    token = PREFIX + secrets.token_urlsafe(32)
    with store.write() as session:
        now = session.now()
        if any(known.name == name and _is_good(known, now) for known in session.tokens()):
            raise InvalidArgument(f"there is a token called {name!r} already")
        ends = None if lives is None else now + lives
        words = " ".join(dict.fromkeys(scopes))
        session.add_token(Token(digest(token), name, words, now, None, only, rate, ends))
        detail = f"token {name!r} with {words}" + (f" for {', '.join(experiments)}" if experiments else "")
        access.note(session, [Note(now, COMMAND, "", "token created", None, detail)])
    return token


def revoke(store: Store, name: str) -> None:
    """End a token; servers know within seconds."""
    with store.write() as session:
        if not session.revoke(name, session.now()):
            raise InvalidArgument(f"there is no token called {name!r} in use")
        access.note(session, [Note(session.now(), COMMAND, "", "token revoked", None, f"token {name!r}")])


def experiments_of(token: Token) -> list[str] | None:
    """Those that a token is for; None where it is for all."""
    only = None if token.experiments is None else json.loads(token.experiments)
    if token.experiments is not None and not (isinstance(only, list) and all(isinstance(each, str) for each in only)):
        raise ValueError(f"no list of experiments: {token.experiments!r}")
    return only


def _is_whole(token: Token) -> bool:
    """Whether what is stored can be what was written; SQLite takes anything anywhere."""
    texts = isinstance(token.digest, bytes) and isinstance(token.name, str) and isinstance(token.scopes, str)
    numbers = all(each is None or isinstance(each, float) for each in (token.rate, token.expires_at))
    try:
        experiments_of(token)
    except (ValueError, TypeError):
        return False
    return texts and numbers and (token.rate is None or token.rate > 0)


def _is_good(token: Token, now: float) -> bool:
    return state(token, now) == IN_USE


def state(token: Token, now: float) -> str:
    """What a token is, in words."""
    if token.revoked_at is not None:
        return "revoked"
    if not _is_whole(token):
        return "damaged"
    return IN_USE if token.expires_at is None or now < token.expires_at else "expired"


class Bearer:
    """Who has a token."""

    def __init__(self, token: Token) -> None:
        self.digest = token.digest
        self.name = token.name
        self.scopes = frozenset(token.scopes.split())
        only = experiments_of(token)
        self.experiments = None if only is None else frozenset(only)
        self.expires_at = math.inf if token.expires_at is None else token.expires_at
        self.rate = None if token.rate is None else Rate(token.rate)

    def may_see(self, experiment: str) -> bool:
        """Whether an experiment is among those that the token is for."""
        return self.experiments is None or experiment in self.experiments


class Guard:
    """Who may do what. Where no token is needed everybody may do everything."""

    def __init__(self, store: Store | None, needed: bool) -> None:
        self._store = store
        self.needed = needed
        self._known: dict[bytes, Bearer] = {}
        self._uses: dict[bytes, float] = {}
        self._failed: list[By] = []
        self._failures = 0
        self._fallbacks: Counter[str] = Counter()
        self._said = -math.inf
        self.refresh()

    def refresh(self) -> None:
        """Learn of new and revoked tokens."""
        if self.needed and self._store is not None:
            with self._store.read() as session:
                self.learn(session.tokens(), session.now())

    def learn(self, tokens: Sequence[Token], now: float) -> None:
        """These are the tokens that are stored."""
        if self.needed:
            good = {token.digest: token for token in tokens if _is_good(token, now)}
            self._known = {key: self._known.get(key) or Bearer(token) for key, token in good.items()}

    @property
    def empty(self) -> bool:
        """Whether there is no token at all."""
        return not self._known

    def bearer(self, header: bytes) -> Bearer | None:
        """Who an Authorization header is from; None if it has no token of ours, or an old one.

        Every known digest is compared, so that the time tells nothing.
        """
        kind, _, token = header.partition(b" ")
        given = hashlib.sha256(token.strip()).digest()
        found = None
        for known, bearer in self._known.items():
            if hmac.compare_digest(known, given):
                found = bearer
        if found is None or kind.lower() != b"bearer" or time.time() >= found.expires_at:
            return None
        self._uses[found.digest] = time.time()
        return found

    def scopes(self, header: bytes) -> frozenset[str] | None:
        """What the bearer of an Authorization header may do; None if it is no token of ours."""
        bearer = self.bearer(header)
        return None if bearer is None else bearer.scopes

    # --- what is put on record ---

    def failed(self, address: str) -> None:
        """Somebody came with a token that is not known."""
        self._failures += 1
        if len(self._failed) < FEW:
            self._failed.append(By("nobody", address))

    def fell_back(self, experiment: str, count: int) -> None:
        """A client says that it decided so often without us, since we did not answer."""
        self._fallbacks[experiment] += count

    def record(self, now: float) -> Record | None:
        """What is to be written since the last time of uses, failures and fallbacks; None where there is nothing yet.

        A line for many failures, so that who tries all tokens does not fill the disk.
        """
        if not (self._uses or self._failures or self._fallbacks) or now < self._said + PAUSE:
            return None
        self._said = now
        uses, self._uses = self._uses, {}
        failures, self._failures = self._failures, 0
        failed, self._failed = self._failed, []
        addresses = ", ".join(dict.fromkeys(each.address for each in failed))
        detail = f"requests with a token that is not known, expired or revoked: {failures}"
        notes = [Note(time.time(), "nobody", addresses, "login failed", None, detail)] if failures else []
        fallbacks, self._fallbacks = self._fallbacks, Counter()
        for experiment, count in sorted(fallbacks.items()):
            said = f"decisions of {experiment} made by clients that got no answer: {count}"
            notes.append(Note(time.time(), "clients", "", "decided without us", experiment, said))
        return Record(uses, notes)
