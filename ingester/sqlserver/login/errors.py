"""What a refused login means: a table of numbers, pure. A person must act on what is permanent; the rest is tried again.

Of a login that has worked before everything is tried again: while a server fails over, it refuses good passwords as well.
https://learn.microsoft.com/azure/azure-sql/database/troubleshoot-common-errors-issues
https://learn.microsoft.com/sql/relational-databases/errors-events/mssqlserver-18456-database-engine-error
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from common.errors import ConnectionLost, DStreamError, PermanentError
from ingester.sqlserver.errors import NOT_READY, hint_for
from ingester.sqlserver.login.refusal import Refusal

_GRAVE = 14
"""Severity of what a person may be refused for; what is more is the server's own trouble.
https://learn.microsoft.com/sql/relational-databases/errors-events/database-engine-error-severities"""

_SERVER = "the gateway does not know the server by this name: check the host, or write the user as user@server"
_NETWORK = "let this machine's address in: the server's firewall rules, virtual network rules, or a private endpoint"
_ACCOUNT = "have it unlocked or enabled by the server's administrator"
_PASSWORD = "set a new password, and put it into ingester.db_connection_string"
_DATABASE = "check the database's name, that it is online, and that the login has a user in it"
_LOGIN = "check user and password in ingester.db_connection_string"

_CHANGED = "if its password or its rights were changed, restart with the new ones; "
_USER = (
    "make the identity a user of this very database: CREATE USER [its name] FROM EXTERNAL PROVIDER, by the server's administrator of "
    "Microsoft Entra ID; and see that it is this identity that DStream runs under"
)
_NO_TOKENS = "set an administrator of Microsoft Entra ID for the server, without whom it takes no tokens"

_HINTS: Mapping[int, str] = {
    4060: _DATABASE,
    916: _DATABASE,
    **dict.fromkeys(
        (18450, 18452, 40607), "the server takes no SQL Server logins, or not from here: allow mixed authentication"
    ),
    **dict.fromkeys((18470, 18486), _ACCOUNT),
    **dict.fromkeys((18487, 18488, 18463, 18464), _PASSWORD),
    **dict.fromkeys((40531, 40532), _SERVER),
    **dict.fromkeys((40615, 40914, 47073), _NETWORK),
    18456: _LOGIN,
}
"""The first of these that was told counts: after 4060 a server says 18456 as well."""

_OF_IDENTITIES: Mapping[int, str] = {**dict.fromkeys((4060, 916, 18456), _USER), 18452: _NO_TOKENS}
"""What is otherwise for logins without a password.
https://learn.microsoft.com/azure/azure-sql/database/authentication-aad-configure"""

_STATES: Mapping[int, str] = {
    7: "the login is disabled",
    18: "the password must be changed first",
    38: "the database does not exist, or the login may not open it",
    40: "the login's default database cannot be opened",
    46: "the database does not exist, or the login may not open it",
    58: "the server takes Windows logins only",
    126: "the database does not exist",
}
"""Of 18456, where a server tells more than 1, which is all that most do."""


def refused(
    refusals: Sequence[Refusal], doing: str, who: str, database: str, *, proven: bool, by_token: bool = False
) -> DStreamError:
    """What these errors in the answer to a login mean. `doing`: a participle; `who`: "user 'x'"; `proven`: this login has worked before;
    `by_token`: an identity's.
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
        return ConnectionLost(f"{doing}: login refused for {who}, and let in a moment later", hint="it is tried again")
    first = refusals[0]
    return _judged(f"{doing}: login refused for {who}: error {first.number}: {first.text}", hint, proven=proven)


def _judged(said: str, hint: str, *, proven: bool) -> DStreamError:
    if not proven:
        return PermanentError(said, hint=hint)
    changed = "" if hint in (_USER, _NO_TOKENS) else _CHANGED  # an identity has nothing to restart with
    return ConnectionLost(
        f"{said}; it worked before", hint=f"it will while the server fails over; {changed}else {hint}"
    )
