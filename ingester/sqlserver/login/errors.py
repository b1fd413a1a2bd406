"""What a refused login means: a table of numbers. Pure. A permanent error needs a person; all others are retried.

Every error of a login that has worked before is retried: a server that fails over also refuses valid passwords.
https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues
https://learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-18456-database-engine-error
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.errors import ConnectionLost, DStreamError, PermanentError
from ingester.sqlserver.errors import NOT_READY, hint_for
from ingester.sqlserver.login.refusal import Refusal

_GRAVE = 14
"""The highest severity of a refusal that concerns the login; above it the trouble is the server's own.
https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-error-severities"""

_SERVER = "the gateway does not know a server of this name: check the host, or write the user as user@server"
_NETWORK = (
    "allow this machine's address in the server's firewall rules or virtual network rules, or use a private endpoint"
)
_ACCOUNT = "ask the server's administrator to unlock or enable the login"
_PASSWORD = "set a new password and put it into ingester.db_connection_string"
_OPENABLE = (
    "check the database's name, that the database is online and not in single-user mode (where a session of an ingester may hold the one place: "
    "docs/fail.md)"
)
_DATABASE = f"{_OPENABLE}, and that the login has a user in it"
_LOGIN = "check user and password in ingester.db_connection_string"

_CHANGED = "if its password or rights were changed, restart with the new ones; "
_USER = (
    "make the identity a user of this database (CREATE USER [its name] FROM EXTERNAL PROVIDER, run by the server's administrator of "
    "Microsoft Entra ID), and check that DStream runs under this identity"
)
_NO_TOKENS = "set a Microsoft Entra ID administrator for the server: without one it accepts no tokens"

_HINTS: Mapping[int, str] = {
    4060: _DATABASE,
    916: _DATABASE,
    **dict.fromkeys(
        (18450, 18452, 40607), "the server accepts no SQL Server logins, or none from here: allow mixed authentication"
    ),
    **dict.fromkeys((18470, 18486), _ACCOUNT),
    **dict.fromkeys((18487, 18488, 18463, 18464), _PASSWORD),
    **dict.fromkeys((40531, 40532), _SERVER),
    **dict.fromkeys((40615, 40914, 47073), _NETWORK),
    18456: _LOGIN,
}
"""The first of these errors counts: after 4060 a server also sends 18456."""

_OF_IDENTITIES: Mapping[int, str] = {
    **dict.fromkeys((4060, 916), f"{_OPENABLE}; else {_USER}"),
    18456: _USER,
    18452: _NO_TOKENS,
}
"""What differs for logins without a password.
https://learn.microsoft.com/azure/azure-sql/database/authentication-aad-configure"""

_STATES: Mapping[int, str] = {
    7: "the login is disabled",
    18: "the password must be changed first",
    38: "the database does not exist, or the login may not open it",
    40: "the login's default database cannot be opened",
    46: "the database does not exist, or the login may not open it",
    58: "the server accepts Windows logins only",
    126: "the database does not exist",
}
"""States of 18456. Most servers only send 1."""


def refused(
    refusals: Sequence[Refusal], doing: str, who: str, database: str, *, proven: bool, by_token: bool = False
) -> DStreamError:
    """The meaning of the errors in the answer to a login. `doing`: a participle; `who`: "user 'x'"; `proven`: this
    login has worked before; `by_token`: the login of an identity.
    """
    for refusal in refusals:
        if refusal.number in NOT_READY or (refusal.number not in _HINTS and refusal.severity > _GRAVE):
            return ConnectionLost(
                f"{doing}: refused for now: error {refusal.number}: {refusal.text}",
                hint=hint_for(refusal.number)
                or "the server or the database is starting, failing over or out of resources",
            )
    known = {refusal.number: refusal for refusal in reversed(refusals)}
    number = next((number for number in _HINTS if number in known), None)
    if number is None:
        return _unknown(refusals, doing, who, _USER if by_token else _LOGIN, proven=proven)
    what = f"cannot open database {database!r} as {who}" if number in (4060, 916) else f"login refused for {who}"
    hint = (by_token and _OF_IDENTITIES.get(number)) or _HINTS[number]
    return _judged(f"{doing}: {what}: {_said(known[number])}", hint, proven=proven)


def _said(refusal: Refusal) -> str:
    state = _STATES.get(refusal.state) if refusal.number == 18456 else None
    return f"error {refusal.number}: {refusal.text}" + (f" (state {refusal.state}: {state})" if state else "")


def _unknown(refusals: Sequence[Refusal], doing: str, who: str, hint: str, *, proven: bool) -> DStreamError:
    if not refusals:
        return ConnectionLost(
            f"{doing}: login refused for {who}, and accepted a moment later", hint="nothing to do: DStream retries"
        )
    first = refusals[0]
    return _judged(f"{doing}: login refused for {who}: error {first.number}: {first.text}", hint, proven=proven)


def _judged(said: str, hint: str, *, proven: bool) -> DStreamError:
    if not proven:
        return PermanentError(said, hint=hint)
    if hint.startswith(_OPENABLE):  # no password helps, so nothing to restart with
        return ConnectionLost(f"{said}; it worked before", hint=f"{hint}; a server that fails over refuses logins, too")
    changed = "" if hint in (_USER, _NO_TOKENS) else _CHANGED  # an identity has nothing to restart with
    return ConnectionLost(
        f"{said}; it worked before", hint=f"the server refuses logins while it fails over; {changed}else {hint}"
    )
