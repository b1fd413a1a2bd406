"""sp_getapplock, sp_releaseapplock, APPLOCK_MODE and APPLOCK_TEST for one session.

What cannot be locked is an error with its number, and the return code -999. Errors: 1202, 1223 to 1227, 3918.
Source: https://learn.microsoft.com/sql/relational-databases/system-stored-procedures/sp-getapplock-transact-sql, and the pages of
sp_releaseapplock, APPLOCK_MODE and APPLOCK_TEST; the name of the inner procedure in the texts was seen on a real server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from emulators.sqlserver.engine.application_locks import MODES, Owner, Resource
from emulators.sqlserver.engine.extension import CallContext, ProcedureFailed, ProcedureSpec
from emulators.sqlserver.engine.session_ports import StatementSession
from emulators.sqlserver.results import Event, ReturnStatus, SqlError, Value

Given = Mapping[str, Value]
_TIMED_OUT = -1
_WRONG_CALL = -999
_LONGEST = 255
_PROCEDURE = "xp_userlock"


class LockProcedures:
    """`calls`: the functions by upper-case name."""

    def __init__(self, session: StatementSession) -> None:
        self._session = session
        self.calls: dict[str, Callable[..., Value]] = {"APPLOCK_MODE": self._mode, "APPLOCK_TEST": self._test}

    def specs(self) -> dict[str, ProcedureSpec]:
        common = ("@lockowner", "@locktimeout", "@dbprincipal")
        return {
            "sys.sp_getapplock": ProcedureSpec(("@Resource", "@LockMode", *common), ("@LockMode",), self._get),
            "sys.sp_releaseapplock": ProcedureSpec(("@Resource", "@lockowner", "@dbprincipal"), (), self._release),
        }

    def _get(self, context: CallContext, given: Given) -> Iterator[Event]:
        session = self._session
        try:
            owner = self._owner(given.get("@lockowner"), _PROCEDURE)
            resource = self._resource(given.get("@resource"), given.get("@dbprincipal", "public"), _PROCEDURE)
            mode = _mode_of(given["@lockmode"], _PROCEDURE)
            timeout = _timeout(given.get("@locktimeout"), session.settings.lock_timeout)
        except SqlError as error:
            raise ProcedureFailed(error, _WRONG_CALL) from None
        granted = session.engine.application_locks.acquire(owner, resource, mode, timeout, session.cancelled)
        yield ReturnStatus(_TIMED_OUT if granted is None else granted)

    def _release(self, context: CallContext, given: Given) -> Iterator[Event]:
        try:
            owner = self._owner(given.get("@lockowner"), _PROCEDURE)
            resource = self._resource(given.get("@resource"), given.get("@dbprincipal", "public"), _PROCEDURE)
        except SqlError as error:
            raise ProcedureFailed(error, _WRONG_CALL) from None
        if not self._session.engine.application_locks.release(owner, resource):
            text = (
                f"Cannot release the application lock (Database Principal: '{resource.principal}', Resource: "
                f"'{resource.name}') because it is not currently held."
            )
            raise ProcedureFailed(SqlError(1223, text, 16), _WRONG_CALL)
        yield ReturnStatus(0)

    def _mode(self, principal: Value, name: Value, owner: Value) -> Value:
        who = self._owner(owner, "applock_mode")
        return self._session.engine.application_locks.mode(who, self._resource(name, principal, "applock_mode"))

    def _test(self, principal: Value, name: Value, mode: Value, owner: Value) -> Value:
        who, wanted = self._owner(owner, "applock_test"), _mode_of(mode, "applock_test")
        resource = self._resource(name, principal, "applock_test")
        return int(self._session.engine.application_locks.grantable(who, resource, wanted))

    def _owner(self, value: Value, function: str) -> Owner:
        """Raises 1226, 3918."""
        wanted = "transaction" if value is None else str(value).lower()
        if wanted not in ("transaction", "session"):
            raise SqlError(1226, f"An invalid application lock owner was passed to {function}.", 16)
        if wanted == "transaction" and not self._session.transaction.count:
            text = "The statement or function must be executed in the context of a user transaction."
            raise SqlError(3918, text, 16)
        return Owner(self._session.session_id, wanted == "transaction")

    def _resource(self, name: Value, principal: Value, function: str) -> Resource:
        """Raises 1202, 1224."""
        database = self._session.current()
        if name is None:
            raise SqlError(1224, f"An invalid application lock resource was passed to {function}.", 16)
        known = self._session.engine.security.of(database.database_id, database.name).principals
        found = known.get(str(principal).lower())
        rights = self._session.rights(database)
        if found is None or not (rights.user.lower() == found.name.lower() or rights.is_member(found.name)):
            text = f"The database-principal '{principal!s}' does not exist or user is not a member."
            raise SqlError(1202, text, 16)
        return Resource(database.database_id, found.name, str(name)[:_LONGEST])


def _mode_of(value: Value, function: str) -> str:
    """Raises 1225."""
    found = MODES.get(str(value).lower())
    if found is None:
        raise SqlError(1225, f"An invalid application lock mode was passed to {function}.", 16)
    return found


def _timeout(value: Value, default: int) -> float | None:
    """Seconds; None waits without end. Raises 1227."""
    milliseconds = default if value is None else int(str(value))
    if milliseconds < -1:
        raise SqlError(1227, f"An invalid application lock time-out was passed to {_PROCEDURE}.", 16)
    return None if milliseconds == -1 else milliseconds / 1000
