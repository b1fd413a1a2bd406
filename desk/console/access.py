"""Who may reach a console at all, from its options: refuses to start where anybody could.

`local`: the console's own account of this machine and root (`peers.py`), and pages that this console served. `token`: whoever has the token.
`proxy`: whoever a proxy names in a header; then the proxy must be the only way to the console.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Literal
from urllib.parse import urlsplit

from common.errors import ConfigurationError

_HOST = frozenset("abcdefghijklmnopqrstuvwxyz0123456789-_.:")
_TOKEN = "abcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~"


@dataclass(frozen=True, slots=True)
class Access:
    """`header`: in lower case, of the proxy's identity. `trusted`: where the proxy is; empty: anywhere. `names`: of hosts, behind a proxy, besides
    this machine's own."""

    host: str
    mode: Literal["local", "token", "proxy"]
    header: str | None = None
    trusted: tuple[IPv4Network | IPv6Network, ...] = ()
    tls: bool = False
    names: frozenset[str] = frozenset()

    @property
    def login(self) -> bool:
        """Whether a person can log in with a token."""
        return self.mode == "token"


def checked(
    host: str,
    *,
    token_file: bool,
    behind_proxy: str | None,
    trusted_proxies: Sequence[str] = (),
    public_names: Sequence[str] = (),
    tls: bool = False,
) -> Access:
    """Raises ConfigurationError where the console would be open to a network."""
    problems, trusted = list[str](), list[IPv4Network | IPv6Network]()
    if token_file and behind_proxy is not None:
        problems.append("--token-file and --behind-proxy exclude each other")
    if behind_proxy is not None and (not behind_proxy or set(behind_proxy.lower()) - set(_TOKEN)):
        problems.append(f"--behind-proxy: {behind_proxy!r} is no name of a header")
    if trusted_proxies and behind_proxy is None:
        problems.append("--trusted-proxy needs --behind-proxy")
    if public_names and behind_proxy is None:
        problems.append("--public-name needs --behind-proxy")
    problems += [
        f"--public-name: {each!r} is no name of a host; give it without https://, port and path"
        for each in public_names
        if host_of(each) != each.lower().strip("[]").rstrip(".")
    ]
    for each in trusted_proxies:
        try:
            trusted.append(ip_network(each))
        except ValueError as error:
            problems.append(f"--trusted-proxy: {error}")
    if problems:
        raise ConfigurationError(problems, hint="see dstream console --help")
    if behind_proxy is not None:
        names = frozenset(filter(None, map(host_of, public_names)))
        return Access(host, "proxy", behind_proxy.lower(), tuple(trusted), tls, names)
    if token_file:
        return Access(host, "token", tls=tls)
    if not is_loopback(host):
        raise ConfigurationError(
            [f"--host {host}: without a token everybody who reaches this address would be let in"],
            hint="give --token-file FILE, or --behind-proxy HEADER, or leave out --host",
        )
    return Access(host, "local", tls=tls)


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches what listens at `host`. Asks no resolver: a name but `localhost` could be anything."""
    if host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def host_of(authority: str) -> str | None:
    """Of `Console.example.com:443` or `[::1]:8090` the host, in lower case and without a last dot; None if it is none."""
    try:
        found = urlsplit(f"//{authority}")
        name, _ = (found.hostname or "").rstrip("."), found.port
    except ValueError:
        return None
    plain = found.netloc == authority and "@" not in authority and not set(name) - _HOST
    return name if name and plain else None


def is_trusted(access: Access, address: str) -> bool:
    """Whether what comes from `address` may name a person."""
    if not access.trusted:
        return True
    found = _plain(address)
    return found is not None and any(found in network for network in access.trusted)


def is_shared(access: Access, address: str) -> bool:
    """Whether many people may come from `address`: a proxy's, or this machine's own, where a proxy or a forwarded port may be."""
    if access.mode == "proxy":
        return is_trusted(access, address)
    found = _plain(address)
    return found is None or found.is_loopback


def _plain(address: str) -> IPv4Address | IPv6Address | None:
    try:
        found = ip_address(address)
    except ValueError:
        return None
    return getattr(found, "ipv4_mapped", None) or found
