"""PostgreSQL's errors as DStream's: which wait, which need a person, which are about data, and never a value."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from common.errors import ConnectionLost, DStreamError, EntityMissing, EntityUnavailable, Throttled, TransientError
from router.outputs.postgres.errors import about_data, table_changed, translated


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errors.UndefinedTable(), EntityMissing),
        (errors.InsufficientPrivilege(), EntityUnavailable),
        (errors.InvalidPassword(), EntityUnavailable),
        (errors.InvalidCatalogName(), EntityUnavailable),
        (errors.UndefinedColumn(), EntityUnavailable),
        (errors.DeadlockDetected(), TransientError),
        (errors.SerializationFailure(), TransientError),
        (errors.LockNotAvailable(), TransientError),
        (errors.QueryCanceled(), TransientError),
        (errors.DiskFull(), TransientError),
        (errors.TooManyConnections(), Throttled),
        (errors.AdminShutdown(), ConnectionLost),
        (errors.ReadOnlySqlTransaction(), ConnectionLost),
        (errors.InternalError_(), TransientError),
    ],
)
def test_kinds(error: psycopg.Error, kind: type[DStreamError]) -> None:
    found = translated(error, "applying changes to x", "x", "dstream")
    assert type(found) is kind
    assert str(error.sqlstate) in found.message
    assert about_data(error) is None


@pytest.mark.parametrize(
    "error",
    [
        errors.InvalidTextRepresentation,
        errors.NumericValueOutOfRange,
        errors.StringDataRightTruncation,
        errors.UniqueViolation,
        errors.ForeignKeyViolation,
        errors.NotNullViolation,
        errors.UntranslatableCharacter,
        errors.RaiseException,
        errors.ProgramLimitExceeded,
    ],
)
def test_an_error_about_data_says_its_kind_and_no_value(error: type[psycopg.Error]) -> None:
    found = about_data(error('invalid input syntax for type integer: "a value"'))
    assert found is not None
    assert error.__name__ in found.words
    assert "a value" not in found.words


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('connection failed: FATAL:  password authentication failed for user "dstream"', EntityUnavailable),
        ('connection failed: FATAL:  role "dstream" does not exist', EntityUnavailable),
        ('connection failed: FATAL:  database "x" does not exist', EntityUnavailable),
        ('connection failed: FATAL:  no pg_hba.conf entry for host "1.2.3.4"', EntityUnavailable),
        ("connection failed: server does not support SSL, but SSL was required", EntityUnavailable),
        ("connection failed: SSL error: certificate verify failed", EntityUnavailable),
        ('connection failed: FATAL:  too many connections for role "dstream"', Throttled),
        ("connection failed: FATAL:  sorry, too many clients already", Throttled),
        ("connection failed: FATAL:  the database system is starting up", ConnectionLost),
        ("connection failed: Connection refused", ConnectionLost),
        ("the server did not answer in time", ConnectionLost),
    ],
)
def test_what_a_refused_connection_says(text: str, kind: type[DStreamError]) -> None:
    found = translated(psycopg.OperationalError(text), "connecting to x", "x", "dstream")
    assert type(found) is kind
    assert found.hint


def test_a_table_that_may_have_changed() -> None:
    assert table_changed(errors.UndefinedColumn())
    assert not table_changed(errors.DeadlockDetected())
