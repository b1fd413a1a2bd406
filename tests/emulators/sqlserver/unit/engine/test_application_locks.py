"""sp_getapplock and its kin, as their pages document them."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from emulators.sqlserver.engine.application_locks import ApplicationLocks, Owner, Resource
from emulators.sqlserver.results import ErrorMessage, Parameter, ResultSet, ReturnStatus
from emulators.sqlserver.sqltypes import SqlType

from .conftest import Client

Connect = Callable[[], Client]


def taken(client: Client, mode: str, owner: str = "Session", name: str = "res", timeout: int = 0) -> object:
    """The return code."""
    return client.value(
        f"DECLARE @rc int; EXEC @rc = sp_getapplock @Resource = N'{name}', @LockMode = '{mode}', @LockOwner = '{owner}', "
        f"@LockTimeout = {timeout}; SELECT @rc"
    )


def released(client: Client, owner: str = "Session", name: str = "res") -> object:
    return client.value(
        f"DECLARE @rc int; EXEC @rc = sp_releaseapplock @Resource = N'{name}', @LockOwner = '{owner}'; SELECT @rc"
    )


def mode(client: Client, owner: str = "Session", name: str = "res") -> object:
    return client.value(f"SELECT APPLOCK_MODE('public', N'{name}', '{owner}')")


@pytest.mark.parametrize(
    ("held", "wanted", "code"),
    [
        ("Shared", "Shared", 0),
        ("Shared", "Update", 0),
        ("Update", "Update", -1),
        ("Shared", "Exclusive", -1),
        ("Exclusive", "IntentShared", -1),
        ("IntentExclusive", "IntentExclusive", 0),
        ("IntentExclusive", "Shared", -1),
        ("IntentShared", "Update", 0),
    ],
)
def test_modes_go_together_as_the_servers_own_locks_do(
    client: Client, connect: Connect, held: str, wanted: str, code: int
) -> None:
    other = connect()
    assert taken(client, held) == 0
    assert other.value(f"SELECT APPLOCK_TEST('public', N'res', '{wanted}', 'Session')") == int(code == 0)
    assert taken(other, wanted) == code


def test_a_lock_is_released_as_often_as_it_was_taken(client: Client, connect: Connect) -> None:
    other = connect()
    assert taken(client, "Exclusive") == taken(client, "Exclusive") == 0
    assert released(client) == 0
    assert taken(other, "Shared") == -1
    assert released(client) == 0
    assert taken(other, "Shared") == 0


def test_a_waiting_lock_returns_1_when_it_is_granted(client: Client, connect: Connect) -> None:
    other = connect()
    assert taken(client, "Exclusive") == 0
    codes: list[object] = []
    waiting = threading.Thread(target=lambda: codes.append(taken(other, "Exclusive", timeout=-1)))
    waiting.start()
    released(client)
    waiting.join(10)
    assert codes in ([0], [1])  # 0 when the release was faster than the request
    assert mode(other) == "Exclusive"


def test_granted_after_waiting_is_told_from_granted_at_once() -> None:
    """As the register sees it, where the order is certain: the first look of the waiter finds the lock taken."""
    locks, resource = ApplicationLocks(), Resource(5, "public", "res")
    first, second = Owner(51, False), Owner(52, False)
    assert locks.acquire(first, resource, "Exclusive", None, lambda: False) == 0
    asked: list[bool] = []

    def cancelled() -> bool:  # asked only while waiting
        if not asked:
            locks_released.set()
        asked.append(True)
        return False

    locks_released = threading.Event()
    releaser = threading.Thread(target=lambda: (locks_released.wait(10), locks.release(first, resource)))
    releaser.start()
    assert locks.acquire(second, resource, "Shared", None, cancelled) == 1
    releaser.join(10)


def test_a_transactions_locks_end_with_it(client: Client, connect: Connect) -> None:
    other = connect()
    for end in ("COMMIT", "ROLLBACK"):
        client.run("BEGIN TRAN")
        assert taken(client, "Exclusive", "Transaction") == 0
        assert (mode(client, "Transaction"), mode(client)) == ("Exclusive", "NoLock")
        assert taken(other, "Shared") == -1
        client.run(end)
        assert taken(other, "Shared") == 0
        released(other)


def test_the_owner_is_the_transaction_unless_the_session_is_named(client: Client) -> None:
    client.run("BEGIN TRAN")
    client.run("EXEC sp_getapplock N'res', 'Shared'")
    assert mode(client, "Transaction") == "Shared"
    client.run("EXEC sp_releaseapplock N'res'")
    assert mode(client, "Transaction") == "NoLock"


def test_a_sessions_locks_outlive_its_transactions_and_end_with_it(client: Client, connect: Connect) -> None:
    other = connect()
    client.run("BEGIN TRAN")
    assert taken(client, "Exclusive") == 0
    client.run("COMMIT")
    assert taken(other, "Shared") == -1
    client.session.close()
    assert taken(other, "Shared") == 0


def test_a_reset_connection_holds_nothing(client: Client, connect: Connect) -> None:
    assert taken(client, "Exclusive") == 0
    client.session.reset()
    assert taken(connect(), "Shared") == 0


def test_a_killed_sessions_locks_are_free(client: Client, connect: Connect) -> None:
    other = connect()
    assert taken(other, "Exclusive") == 0
    client.run(f"KILL {other.session.session_id}")
    assert taken(client, "Exclusive") == 0


def test_one_sessions_own_locks_add_up(client: Client) -> None:
    client.run("BEGIN TRAN")
    assert taken(client, "Exclusive") == taken(client, "Shared", "Transaction") == 0
    assert (mode(client), mode(client, "Transaction")) == ("Exclusive", "Shared")
    assert taken(client, "Shared", name="other") == taken(client, "IntentExclusive", name="other") == 0
    assert mode(client, name="other") == "SharedIntentExclusive"


def test_a_resource_has_a_database_a_principal_and_a_name_compared_byte_by_byte(
    client: Client, connect: Connect
) -> None:
    other = connect()
    assert taken(client, "Exclusive", name="Res") == 0
    assert taken(other, "Exclusive", name="res") == 0
    assert taken(other, "Exclusive", name="Res ") == 0
    assert other.value("USE master SELECT APPLOCK_TEST('public', N'Res', 'Exclusive', 'Session')") == 1
    assert other.value("USE demo SELECT APPLOCK_TEST('dbo', N'Res', 'Exclusive', 'Session')") == 1
    long = "x" * 255
    assert taken(client, "Exclusive", name=long) == 0
    assert taken(other, "Exclusive", name=long + "y") == -1


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ("N'res', 'Loud', 'Session'", 1225),
        ("N'res', 'Shared', 'Nobody'", 1226),
        ("NULL, 'Shared', 'Session'", 1224),
        ("N'res', 'Shared', 'Session', -2", 1227),
        ("N'res', 'Shared', 'Session', 0, N'nobody'", 1202),
        ("N'res', 'Shared'", 3918),
    ],
)
def test_a_wrong_call_is_an_error_and_returns_minus_999(client: Client, arguments: str, number: int) -> None:
    events = client.events(f"DECLARE @rc int = 7; EXEC @rc = sp_getapplock {arguments}; SELECT @rc")
    assert [event.number for event in events if isinstance(event, ErrorMessage)] == [number]
    assert [list(event.rows) for event in events if isinstance(event, ResultSet)] == [[(-999,)]]
    caught = f"BEGIN TRY EXEC sp_getapplock {arguments} END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH"
    assert client.value(caught) == number


def test_what_is_not_held_cannot_be_released(client: Client) -> None:
    number, text = client.error("EXEC sp_releaseapplock N'ghost', 'Session'")
    assert number == 1223
    assert "(Database Principal: 'public', Resource: 'ghost') because it is not currently held." in text
    assert client.error("EXEC sp_getapplock @Resource = N'x'")[0] == 201


def test_the_return_code_goes_to_the_caller_of_a_procedure_call_as_well(client: Client, connect: Connect) -> None:
    text = SqlType("nvarchar", 32)

    def called(who: Client) -> int:
        given = [
            Parameter("@Resource", text, "res"),
            Parameter("@LockMode", text, "Exclusive"),
            Parameter("@LockOwner", text, "Session"),
            Parameter("@LockTimeout", SqlType("int"), 0),
        ]
        events = list(who.session.procedure("sp_getapplock", given, lambda: False))
        return next(event.value for event in events if isinstance(event, ReturnStatus))

    assert [called(client), called(connect())] == [0, -1]
