"""Where a SQL Server is and who logs in: the URL and the ADO spelling, read into one frozen value. Opens no connection.

Refused by name: integrated login and those of Entra that need a person or a secret (docs/decisions/0011-sql-server-login.md), named pipes,
shared memory, LocalDB, unknown keys.
No error holds any of the text: a `;` in an unquoted password makes the rest of it look like a key.
https://learn.microsoft.com/en-us/dotnet/api/microsoft.data.sqlclient.sqlconnection.connectionstring
https://github.com/microsoft/go-mssqldb#the-connection-string-can-be-specified-in-one-of-three-formats (URL form)
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from ipaddress import ip_address
from typing import Literal
from urllib.parse import parse_qsl, unquote, urlsplit

from pydantic import SecretStr

Encrypt = Literal["disable", "optional", "mandatory", "strict"]
Identity = Literal["default", "managed", "workload"]

# Every spelling of a key, blanks removed and lower-cased, to our name for it.
_KEYS = {
    **dict.fromkeys(("server", "datasource", "addr", "address", "networkaddress"), "server"),
    "port": "port",
    **dict.fromkeys(("database", "initialcatalog"), "database"),
    **dict.fromkeys(("userid", "uid", "user"), "user"),
    **dict.fromkeys(("password", "pwd"), "password"),
    "encrypt": "encrypt",
    **dict.fromkeys(("trustedconnection", "integratedsecurity"), "integrated"),
    **dict.fromkeys(("authentication", "fedauth"), "authentication"),
    "trustservercertificate": "trust_server_certificate",
    "hostnameincertificate": "host_name_in_certificate",
    "servercertificate": "server_certificate",
    "certificate": "server_certificate",
    **dict.fromkeys(("applicationname", "app", "appname"), "app_name"),
    **dict.fromkeys(("connecttimeout", "connectiontimeout", "timeout", "dialtimeout"), "connect_timeout"),
    "applicationintent": "application_intent",
    "multisubnetfailover": "multi_subnet_failover",
    "packetsize": "packet_size",
}
# What Azure's portal and .NET put into connection strings and what means nothing here: pooling, MARS and the like.
_WITHOUT_MEANING = frozenset(
    [
        "persistsecurityinfo",
        "multipleactiveresultsets",
        "pooling",
        "minpoolsize",
        "maxpoolsize",
        "workstationid",
        "wsid",
        "enlist",
        "asyncresults",
        "asynchronousprocessing",
        "connectionlifetime",
        "loadbalancetimeout",
        "connectionreset",
        "replication",
        "typesystemversion",
        "connectretrycount",
        "connectretryinterval",
        "poolblockingperiod",
        "transactionbinding",
        "contextconnection",
        "commandtimeout",
        "networklibrary",
        "network",
        "net",
        "currentlanguage",
        "language",
    ]
)
_FLAGS = frozenset(("trust_server_certificate", "multi_subnet_failover"))
_NUMBERS = frozenset(("connect_timeout", "packet_size"))
_TEXTS = frozenset(("host_name_in_certificate", "server_certificate", "app_name", "application_intent"))
_OPTIONS = _FLAGS | _NUMBERS | _TEXTS
_TRUE, _FALSE = frozenset(("true", "yes", "1")), frozenset(("false", "no", "0"))
_ENCRYPT: Mapping[str, Encrypt] = {
    **dict.fromkeys(("true", "yes", "1", "mandatory"), "mandatory"),
    **dict.fromkeys(("false", "no", "0", "optional"), "optional"),
    "strict": "strict",
    "disable": "disable",
}
LOGIN_SECONDS, LONGEST_LOGIN = 10, 120
"""Seconds for a login when the address does not set them: long enough for a failover's listener, short enough to report soon that nobody
answers. And the longest: a serverless database that resumes takes about one minute.
https://learn.microsoft.com/azure/azure-sql/database/serverless-tier-overview"""

_PACKET_SIZES = range(512, 32768)
_NEITHER = "is neither sqlserver://... nor Key=Value;...: part"
_OF_ODBC = frozenset(("driver", "dsn", "filedsn"))
_NOT_ODBC = (
    "is an ODBC string, which is not taken: leave out Driver= or DSN=, and write "
    "Server=HOST,1433;Database=DB;User Id=USER;Password=PASSWORD, or sqlserver://USER:PASSWORD@HOST:1433?database=DB"
)
_READ_ONLY = (
    "asks for a readable secondary (ApplicationIntent=ReadOnly): offsets are written, and a secondary holds neither "
    "these nor the newest changes"
)
_LOGIN = (
    "give a SQL Server login (User Id and Password), or Authentication=ActiveDirectoryManagedIdentity, "
    "ActiveDirectoryWorkloadIdentity or ActiveDirectoryDefault for the identity that DStream runs under"
)
_NO_LOGIN = f"asks for integrated login, which cannot work here: {_LOGIN}"
_IDENTITIES: Mapping[str, Identity] = {
    **dict.fromkeys(("activedirectorymanagedidentity", "activedirectorymsi"), "managed"),
    "activedirectoryworkloadidentity": "workload",
    "activedirectorydefault": "default",
}


@dataclass(frozen=True, slots=True)
class SqlAddress:
    """`port` and `instance` are None when not given (1433; the SQL Server Browser finds an instance's port).

    `encrypt` is what the address says, None when it does not; `encryption` is what holds. `options` is what else it
    says, by the names in _OPTIONS:
    texts, and "true"/"false" for flags. `identity`: of Microsoft Entra ID, which logs in without a password; `user` is then the client id
    of one of several, or "".
    """

    host: str
    port: int | None
    instance: str | None
    database: str
    user: str
    password: SecretStr
    encrypt: Encrypt | None = None
    options: Mapping[str, str] = field(default_factory=dict, hash=False)
    identity: Identity | None = None

    @property
    def encryption(self) -> Encrypt:
        """As with SqlClient and ODBC, mandatory when the address does not set it; on this machine the server decides.

        A token is never sent in clear text.
        """
        return self.encrypt or ("optional" if self.loopback and self.identity is None else "mandatory")

    @property
    def verified(self) -> bool:
        """Whether to verify the server's certificate; strict encryption leaves no choice."""
        trusting = self.options.get("trust_server_certificate") == "true"
        return self.encryption == "strict" or (self.encryption == "mandatory" and not trusting)

    @property
    def loopback(self) -> bool:
        if self.host.lower() == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False

    @property
    def login_seconds(self) -> int:
        """How long a login may take: `Connect Timeout`, 0 of which (for ever) is the longest."""
        if (given := self.options.get("connect_timeout")) is None:
            return LOGIN_SECONDS
        return min(int(given) or LONGEST_LOGIN, LONGEST_LOGIN)

    @classmethod
    def parse(cls, text: str) -> SqlAddress:
        """Read either spelling; raises ValueError with a participle's rest ("has no database"), never with the text."""
        text = text.strip()
        if not text:
            raise ValueError("is empty")
        return _build(_from_url(text) if re.match(r"[a-zA-Z][a-zA-Z0-9+.-]*://", text) else _from_ado(text))


def _build(given: dict[str, str]) -> SqlAddress:
    if given.get("integrated", "false").lower() not in _FALSE:
        raise ValueError(_NO_LOGIN)
    authentication = given.get("authentication", "SqlPassword").replace(" ", "").lower()
    identity = _IDENTITIES.get(authentication)
    if identity is None and authentication.startswith("activedirectory"):
        raise ValueError(f"asks for an Authentication that needs a person or a secret of Microsoft Entra ID: {_LOGIN}")
    if identity is None and authentication not in ("sqlpassword", "notspecified"):
        raise ValueError("asks for an Authentication other than SqlPassword, which DStream does not offer")
    if identity is not None:
        _check_identity(given)
    elif given.get("database") and not given.get("user") and not given.get("password"):
        raise ValueError(f"has neither user nor password: {_LOGIN}")
    host, port, instance = _server(given.get("server", ""))
    if (more := given.get("port")) is not None:
        port = _port(more)
    for name in ("database", "user", "password") if identity is None else ("database",):
        if not given.get(name):
            raise ValueError(f"has no {name}")
    return SqlAddress(
        host=host,
        port=port,
        instance=instance,
        database=given["database"],
        user=given.get("user", ""),
        password=SecretStr(given.get("password", "")),
        encrypt=_encrypt(given.get("encrypt")),
        options={name: _option(name, given[name]) for name in sorted(_OPTIONS & given.keys())},
        identity=identity,
    )


def _check_identity(given: Mapping[str, str]) -> None:
    if given.get("password"):
        raise ValueError("asks for an identity and has a password: an identity has none, leave it out")
    if _encrypt(given.get("encrypt")) in ("disable", "optional"):
        raise ValueError(
            "asks for an identity, whose token is never sent in clear text: leave Encrypt out, or say Encrypt=true"
        )


def _server(text: str) -> tuple[str, int | None, str | None]:
    """`tcp:host,1433`, `host\\instance` or `[::1]:1433` taken apart; the local machine's nicknames become localhost."""
    text = text.strip()
    protocol = re.match(r"([A-Za-z]+):(?!:)", text)
    if protocol is not None and protocol[1].lower() != "tcp":
        raise ValueError("names a protocol other than tcp")
    if protocol is not None:
        text = text[protocol.end() :].strip()
    text, _, port = text.partition(",")
    host, _, instance = text.strip().partition("\\")
    host = host.strip()
    if host.lower() in (".", "(local)"):
        host = "localhost"
    if host.lower() == "(localdb)":
        raise ValueError("names LocalDB, which has no change data capture")
    if not host:
        raise ValueError("has no server")
    return host.strip("[]"), _port(port) if port.strip() else None, instance.strip() or None


def _port(text: str) -> int:
    if not re.fullmatch(r"[0-9]{1,5}", text.strip()) or not 0 < int(text) < 65536:
        raise ValueError("has a port that is not a number from 1 to 65535")
    return int(text)


def _encrypt(text: str | None) -> Encrypt | None:
    if text is None:
        return None
    if (known := _ENCRYPT.get(text.strip().lower())) is None:
        raise ValueError("has an Encrypt that is none of true, false, optional, mandatory, strict, disable")
    return known


def _option(name: str, text: str) -> str:
    shown = name.replace("_", " ")
    if name in _FLAGS:
        if text.lower() not in _TRUE | _FALSE:
            raise ValueError(f"has a {shown} that is neither true nor false")
        return "true" if text.lower() in _TRUE else "false"
    whole = re.fullmatch(r"[0-9]{1,9}", text) is not None
    if name == "connect_timeout" and not whole:
        raise ValueError(
            f"has a connect timeout that is not a whole number of seconds from 0 to 999999999 (it waits {LONGEST_LOGIN} s at most)"
        )
    if name == "packet_size" and not (whole and int(text) in _PACKET_SIZES):
        raise ValueError("has a packet size that is not from 512 to 32767")
    if name == "application_intent" and text.lower() != "readwrite":
        raise ValueError(_READ_ONLY if text.lower() == "readonly" else "has an ApplicationIntent other than ReadWrite")
    return text


def _from_url(text: str) -> dict[str, str]:
    try:
        url = urlsplit(text)
        port, host = url.port, url.hostname
    except ValueError:
        # An unescaped character in a password ends the host early, and then the rest of the text has the "@".
        if text.count("@") == _netloc(text).count("@"):
            _port(_netloc(text).rpartition("@")[2].rpartition(":")[2])
        raise ValueError("is not a URL that can be read; percent-encode what stands in user and password") from None
    if url.scheme.lower() != "sqlserver":
        raise ValueError("is a URL, but not a sqlserver:// one")
    if url.fragment or not host:
        raise ValueError("has no server, or an unescaped '#', '/' or '?' in user or password: percent-encode them")
    pairs = parse_qsl(url.query, keep_blank_values=True)
    given = _collect(pairs, "parameter")
    instance = unquote(url.path.strip("/"))
    if "/" in instance:
        raise ValueError("has a path of more than one part: sqlserver://host/instance?database=... is the form")
    here = {"server": host + ("\\" + instance if instance else ""), "user": unquote(url.username or "")}
    here |= {"password": unquote(url.password or ""), **({"port": str(port)} if port is not None else {})}
    if twice := sorted(given.keys() & {name for name, value in here.items() if value}):
        raise ValueError(f"states its {twice[0]} twice: before the '?' and after it")
    return given | {name: value for name, value in here.items() if value}


def _netloc(text: str) -> str:
    """What stands between "//" and the path, read without judging it."""
    return re.split(r"[/?#]", text.partition("://")[2], maxsplit=1)[0]


def _from_ado(text: str) -> dict[str, str]:
    return _collect(_ado_pairs(text), "part")


def _collect(pairs: Iterable[tuple[str, str]], what: str) -> dict[str, str]:
    given: dict[str, str] = {}
    for number, (key, value) in enumerate(pairs, start=1):
        spelled = re.sub(r"[\s_]+", "", key).lower()
        if spelled in _WITHOUT_MEANING:
            continue
        if what == "part" and spelled in _OF_ODBC:
            raise ValueError(_NOT_ODBC)
        if (name := _KEYS.get(spelled)) is None and what == "part" and number == 1 and re.search(r"[?@/]", key):
            raise ValueError(f"{_NEITHER} 1 begins like a URL without sqlserver://")
        if name is None:
            near = get_close_matches(spelled, _KEYS, n=1, cutoff=0.8)
            meant = f' (did you mean "{near[0]}"?)' if near else ""
            raise ValueError(
                f"has an unknown key in its {what} {number}{meant}; a value that holds ';' or quotes stands in quotes"
            )
        given[name] = value  # as ADO.NET has it, the last of several wins
    return given


def _ado_pairs(text: str) -> Iterator[tuple[str, str]]:
    """`key=value;` pairs. Values may stand in '...' or "..." (doubled inside) or, as ODBC has it, in {...} (`}}` inside)."""
    pair = re.compile(
        r"""\s*(?P<key>(?:[^=;]|==)+?)\s*=(?!=)\s*
        (?: "(?P<double>(?:[^"]|"")*)" | '(?P<single>(?:[^']|'')*)' | \{(?P<braces>(?:[^}]|\}\})*)\} | (?P<plain>[^;"'{][^;]*|) )
        \s*(?:;|$)""",
        re.VERBOSE,
    )
    at, number = 0, 0
    while text[at:].strip(" \t\r\n;"):
        while text[at] in " \t\r\n;":
            at += 1
        number += 1
        if (found := pair.match(text, at)) is None:
            raise ValueError(f"{_NEITHER} {number} has no `=`, or a quote is not closed")
        at = found.end()
        yield found["key"].replace("==", "="), _unquoted(found)


def _unquoted(found: re.Match[str]) -> str:
    if found["double"] is not None:
        return found["double"].replace('""', '"')
    if found["single"] is not None:
        return found["single"].replace("''", "'")
    if found["braces"] is not None:
        return found["braces"].replace("}}", "}")
    return found["plain"].strip()
