"""Who calls over gRPC, and whether it is let in: the same rules as over HTTP (`console/guard.py`), from a call's metadata and its peer.

There are no sessions here, and no pages: a cookie proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import uuid4

from desk.console.access import Access
from desk.console.guard import Asked, Identity, identity
from desk.console.limits import Limits, client_of, network_of, streaming_client_of
from desk.console.refusals import Unauthenticated
from desk.desk import Actor


@dataclass(frozen=True, slots=True)
class _Tokens:
    """What `guard.py` asks."""

    person: Callable[[str], str | None]

    def token(self, given: str) -> str | None:
        return self.person(given)

    def session(self, cookie: str) -> str | None:
        return None

    def csrf(self, subject: str, given: str) -> bool:
        return False


@dataclass(frozen=True, slots=True)
class Admission:
    """`person`: whose a token is, if it is one of those that hold. `local_user`: who calls where no token is needed, unless `user_at` finds whose the
    connection is; it raises NotAllowed for whom it does not let in."""

    access: Access
    limits: Limits
    local_user: str
    person: Callable[[str], str | None] = lambda token: None
    user_at: Callable[[str, int], str] | None = None

    def of(self, method: str, metadata: Sequence[tuple[str, str | bytes]], peer: str) -> Actor:
        """Raises Unauthenticated, NotAllowed or TooMany."""
        return self.with_client(method, metadata, peer)[0]

    def with_client(self, method: str, metadata: Sequence[tuple[str, str | bytes]], peer: str) -> tuple[Actor, str]:
        """And whose streams are counted together."""
        address = address_of(peer)
        headers = tuple(
            (name.lower(), value) for name, value in metadata if isinstance(value, str) and name != "cookie"
        )
        found = self._identity(Asked("POST", method, headers, address, user=self._user(peer)))
        self.limits.requests.take(client_of(address, found))
        actor = Actor(who=found.who, through="grpc", request=uuid4().hex[:16], address=address)
        return actor, streaming_client_of(address, found)

    def _user(self, peer: str) -> str | None:
        if self.access.mode != "local" or self.user_at is None:
            return None
        port = peer.rpartition(":")[2]
        return self.user_at(address_of(peer), int(port) if port.isdecimal() else 0)

    def _identity(self, asked: Asked) -> Identity:
        """Wrong tokens are counted. A right one is never refused for the wrong ones of others at its address."""
        guesses = asked.one("authorization") is not None and self.access.login
        try:
            return identity(self.access, asked, _Tokens(self.person), self.local_user)
        except Unauthenticated:
            if guesses:
                self.limits.logins.take(network_of(asked.address))
            raise


def address_of(peer: str) -> str:
    """Of `ipv4:10.0.0.7:51234` or `ipv6:%5B::1%5D:51234`, the address."""
    kind, _, rest = unquote(peer).partition(":")
    if kind not in ("ipv4", "ipv6"):
        return "local"
    return rest.rpartition(":")[0].strip("[]")
