"""Bearer tokens with scopes. Only their digests are stored."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import secrets

from belated import require
from belated.errors import InvalidArgument
from belated.ledger.store import Store, Token

SCOPES = ("decide", "feedback", "read", "admin")
PREFIX = "belated_"


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


def create(store: Store, name: str, scopes: list[str]) -> str:
    """A new token, which is shown once; `admin` includes all scopes."""
    if not 1 <= len(name) <= 100:
        raise InvalidArgument(f"the name of a token must be 1 to 100 letters, got {name!r}")
    for scope in scopes:
        require.one_of("scope", scope, SCOPES)
    if not scopes:
        raise InvalidArgument(f"a token needs a scope: {', '.join(SCOPES)}")
    token = PREFIX + secrets.token_urlsafe(32)
    with store.write() as session:
        if any(known.name == name and known.revoked_at is None for known in session.tokens()):
            raise InvalidArgument(f"there is a token called {name!r} already")
        session.add_token(Token(digest(token), name, " ".join(dict.fromkeys(scopes)), session.now(), None))
    return token


def revoke(store: Store, name: str) -> None:
    """End a token; servers know within seconds."""
    with store.write() as session:
        if not session.revoke(name, session.now()):
            raise InvalidArgument(f"there is no token called {name!r} in use")


class Guard:
    """Who may do what. Where no token is needed everybody may do everything."""

    def __init__(self, store: Store, needed: bool) -> None:
        self._store = store
        self.needed = needed
        self._known: list[tuple[bytes, frozenset[str]]] = []
        self.refresh()

    def refresh(self) -> None:
        """Learn of new and revoked tokens."""
        if self.needed:
            with self._store.read() as session:
                tokens = [token for token in session.tokens() if token.revoked_at is None]
                tokens = [each for each in tokens if isinstance(each.digest, bytes) and isinstance(each.scopes, str)]
            self._known = [(token.digest, frozenset(token.scopes.split())) for token in tokens]

    @property
    def empty(self) -> bool:
        """Whether there is no token at all."""
        return not self._known

    def scopes(self, header: bytes) -> frozenset[str] | None:
        """What the bearer of an Authorization header may do; None if it is no token of ours.

        Every known digest is compared, so that the time tells nothing.
        """
        kind, _, token = header.partition(b" ")
        given = hashlib.sha256(token.strip()).digest()
        found = None
        for known, scopes in self._known:
            if hmac.compare_digest(known, given):
                found = scopes
        return found if kind.lower() == b"bearer" else None
