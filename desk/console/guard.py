"""Whether a request over HTTP is let in, and who it is from: decisions from its head alone, without I/O.

A browser sends cookies, and reaches this machine, on behalf of any page that a person has open. So each change that comes from a browser must
prove that it is from a page of this console, and on a loopback address, where no token is needed, the name in `Host` must be this machine's:
a foreign name that resolves to 127.0.0.1 is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from http.cookies import CookieError, SimpleCookie
from typing import Final, Literal, Protocol
from urllib.parse import urlsplit

from desk.console.access import Access, host_of, is_loopback, is_trusted
from desk.console.refusals import NotAllowed, Unauthenticated

SAFE: Final = frozenset(("GET", "HEAD", "OPTIONS"))
COOKIE, SECURE_COOKIE = "dstream-session", "__Host-dstream-session"
CSRF_HEADER: Final = "x-csrf-token"
PROBES: Final = frozenset(("/healthz", "/readyz"))
"""They say nothing of anybody, and cost nothing. Behind a proxy they may come past it, to an address."""
_BROWSER: Final = ("origin", "sec-fetch-site", "sec-fetch-mode", "referer", "cookie")
"""Headers of which a browser sends at least one with each change."""
_LONGEST_NAME: Final = 200


@dataclass(frozen=True, slots=True)
class Asked:
    """The head of a request. `headers`: names in lower case; of a name that occurs again, each value. `user`: the account at
    the other end, where no token is needed and this machine can say."""

    method: str
    path: str
    headers: tuple[tuple[str, str], ...]
    address: str
    scheme: str = "http"
    user: str | None = None

    def all(self, name: str) -> list[str]:
        return [value for each, value in self.headers if each == name]

    def one(self, name: str) -> str | None:
        found = self.all(name)
        return found[0] if found else None

    @property
    def changes(self) -> bool:
        return self.method not in SAFE

    @property
    def from_browser(self) -> bool:
        return any(self.one(name) is not None for name in _BROWSER)


@dataclass(frozen=True, slots=True)
class Identity:
    """Who asks. `subject`: what a token against cross-site requests is made of; `explicit`: the request itself has the secret, which
    no foreign page knows."""

    who: str
    subject: str
    through: Literal["page", "http"]
    explicit: bool = False
    cookie: str | None = None


class Knows(Protocol):
    """What is known of tokens and sessions: whose they are; None: they do not hold."""

    def token(self, given: str) -> str | None: ...

    def session(self, cookie: str) -> str | None: ...

    def csrf(self, subject: str, given: str) -> bool: ...


def check_host(access: Access, asked: Asked) -> None:
    """Against DNS rebinding. Where a token is needed any name will do: no browser sends it for a foreign page. Raises NotAllowed."""
    hosts = asked.all("host")
    if len(hosts) != 1:
        raise NotAllowed("the request has no Host header, or several", hint="send one")
    if access.mode == "local" and not _is_this_machine(hosts[0]):
        raise NotAllowed(
            "the Host header does not name this machine",
            hint="open the console as http://localhost or http://127.0.0.1; other names need --token-file",
        )
    if access.mode == "proxy" and asked.path not in PROBES:
        _check_names(access, {"Host": hosts, "X-Forwarded-Host": asked.all("x-forwarded-host")})


def _check_names(access: Access, given: Mapping[str, Sequence[str]]) -> None:
    """Each host that a header names, also that of a proxy before the proxy."""
    for header, values in given.items():
        parts = ",".join(values).split(",") if values else []
        for host in [each for each in parts if each.strip()] or parts:  # a list may have empty parts
            if host_of(host.strip()) not in access.names and not _is_this_machine(host.strip()):
                raise NotAllowed(
                    f"the {header} header names a host that is not this console's",
                    hint="start it with --public-name HOST for each name under which people or the proxy reach it",
                )


def _is_this_machine(host: str) -> bool:
    name = host_of(host)
    return name is not None and is_loopback(name)


def check_origin(access: Access, asked: Asked) -> None:
    """That no foreign page sends it, whatever the browser sends along. Behind a proxy that sends its own Host, a page of each public name is one
    of this console. Raises NotAllowed."""
    site = asked.one("sec-fetch-site")
    if site is not None and site not in ("same-origin", "none"):
        raise NotAllowed("the request comes from another site's page", hint="use a page of this console")
    origins = asked.all("origin")
    if not origins or not asked.changes:
        return
    hosts = {value.lower() for name in ("host", "x-forwarded-host") for value in asked.all(name)[:1]}
    authority = _authority(origins[0]) if len(origins) == 1 else None
    if authority in hosts or (authority is not None and host_of(authority) in access.names):
        return
    hint = "use a page of this console"
    if access.mode == "proxy":
        hint += (
            "; if it is one: have the proxy send the browser's Host header on as it is, or as X-Forwarded-Host, and start the console with"
            " --public-name HOST, the host in the browser's address bar"
        )
    raise NotAllowed("the Origin header names another site", hint=hint)


def _authority(origin: str) -> str | None:
    try:
        found = urlsplit(origin)
    except ValueError:
        return None
    return found.netloc.lower() if found.scheme in ("http", "https") else None


def identity(access: Access, asked: Asked, knows: Knows, local_user: str) -> Identity:
    """Who asks. Raises Unauthenticated or NotAllowed."""
    through: Literal["page", "http"] = "page" if asked.one("sec-fetch-site") is not None else "http"
    if access.mode == "local":
        return Identity(asked.user or local_user, "local", through)
    if access.mode == "proxy":
        return _named_by_proxy(access, asked, through)
    given = asked.all("authorization")
    if given:
        return _bearer(given, knows, through)
    cookie = cookie_of(asked)
    if cookie is not None and (who := knows.session(cookie)):
        return Identity(who, f"session {cookie}", "page", cookie=cookie)
    raise Unauthenticated("nobody is logged in", hint="send the token as Authorization: Bearer, or log in on the page")


def _named_by_proxy(access: Access, asked: Asked, through: Literal["page", "http"]) -> Identity:
    assert access.header is not None
    if not is_trusted(access, asked.address):
        raise NotAllowed("the request does not come through the proxy", hint="see --trusted-proxy")
    names = [value.strip() for value in asked.all(access.header)]
    if len(names) > 1:
        raise NotAllowed(f"the header {access.header} occurs more than once", hint="the proxy must replace it")
    if not names or not names[0]:
        raise Unauthenticated(f"the proxy has set no {access.header}", hint="have the proxy name who is logged in")
    who = "".join(each if each.isprintable() else "?" for each in names[0][:_LONGEST_NAME])
    return Identity(who, f"proxy {names[0]}", through)


def _bearer(given: Sequence[str], knows: Knows, through: Literal["page", "http"]) -> Identity:
    scheme, _, token = given[0].partition(" ")
    if len(given) == 1 and scheme.lower() == "bearer" and (who := knows.token(token.strip())):
        return Identity(who, "token", through, explicit=True)
    raise Unauthenticated(
        "the token is not right",
        hint="Authorization: Bearer TOKEN, with a token of the file, without the name before its colon",
    )


def cookie_of(asked: Asked) -> str | None:
    """The session's, with the prefix that only a cookie over TLS can have, or without."""
    for header in asked.all("cookie"):
        try:
            found = SimpleCookie(header)
        except CookieError:
            continue
        for name in (SECURE_COOKIE, COOKIE):
            if name in found:
                return found[name].value
    return None


def check_csrf(asked: Asked, found: Identity, knows: Knows) -> None:
    """A change from a browser has the token that only a page of this console can read. Raises NotAllowed."""
    if not asked.changes or found.explicit or not asked.from_browser:
        return
    given = asked.all(CSRF_HEADER)
    if len(given) != 1 or not knows.csrf(found.subject, given[0]):
        raise NotAllowed(
            "the request has no valid X-CSRF-Token", hint="reload the page; GET /api/v1/session gives the token"
        )


def is_secure(access: Access, asked: Asked) -> bool:
    """Whether the browser speaks TLS to us, or to what stands before us."""
    return access.tls or asked.scheme == "https" or asked.one("x-forwarded-proto") == "https"
