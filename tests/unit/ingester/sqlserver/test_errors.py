"""Which of SQL Server's errors time may heal, and which want a person."""

from __future__ import annotations

import pytest

from common.errors import ConnectionLost, PermanentError, TransientError
from ingester.source import UNREACHABLE
from ingester.sqlserver.errors import RIGHTS, meaning

WHERE = "SQL Server db:1433"

RETRIED_BY_MICROSOFTS_CLIENT = {
    *(
        233,
        997,
        1204,
        1205,
        1222,
        4060,
        4221,
        10053,
        10054,
        10060,
        10928,
        10929,
        10936,
        40143,
        40197,
        40501,
        40540,
        40613,
    ),
    *(42108, 42109, 49918, 49919, 49920),
}
"""https://learn.microsoft.com/dotnet/api/microsoft.data.sqlclient.sqlconfigurableretryfactory.baselinetransienterrors, of those without
another meaning in SQL Server."""

FAILING_OVER = {976, 978, 982, 983, 3906, 3908}
STARTING_OR_STOPPING = {615, 921, 922, 926, 927, 942, 945, 952, 6001, 6002, 6005, 17142, 17187, 18401, 18451}
SHORT_OF_SOMETHING = {701, 802, 8645, 8651, 1101, 1105, 9002, 3967}
ENDED = {596}
CONFLICTS = {601, 1205, 1222, 3960, 3961}
BROKEN = {0, 20002, 20003, 20004, 20006, 20017, 20020, 20047}


@pytest.mark.parametrize("number", sorted(RETRIED_BY_MICROSOFTS_CLIENT))
def test_what_microsofts_own_client_retries_is_retried(number: int) -> None:
    assert isinstance(meaning(number, "it says", WHERE), TransientError)


@pytest.mark.parametrize("number", sorted(FAILING_OVER))
def test_a_replica_that_is_not_the_primary_is_tried_again_and_the_listener_is_named(number: int) -> None:
    found = meaning(number, "it says", WHERE)
    assert isinstance(found, TransientError)
    assert "listener" in (found.hint or "")


@pytest.mark.parametrize("number", sorted(STARTING_OR_STOPPING | SHORT_OF_SOMETHING))
def test_a_server_that_is_not_itself_is_tried_again_and_said_to_be(number: int) -> None:
    found = meaning(number, "it says", WHERE)
    assert isinstance(found, TransientError)
    assert found.hint
    assert found.message == f"{WHERE}: error {number}: it says"


@pytest.mark.parametrize("number", sorted(CONFLICTS | ENDED))
def test_the_victim_of_a_conflict_tries_again(number: int) -> None:
    assert isinstance(meaning(number, "it says", WHERE), TransientError)


@pytest.mark.parametrize("number", sorted(BROKEN))
def test_a_broken_connection_is_tried_again_and_told_in_words(number: int) -> None:
    found = meaning(number, "", WHERE)
    assert isinstance(found, TransientError)
    assert "error" not in found.message
    assert found.hint == UNREACHABLE, "one hint for one outage: another would be another line in the log"


def test_a_connection_that_ended_before_the_first_statement_is_lost_and_told_in_words() -> None:
    found = meaning(0, "Not connected to any MS SQL server", WHERE)
    assert isinstance(found, ConnectionLost)
    assert found.message == f"{WHERE}: the connection is closed"


@pytest.mark.parametrize("number", sorted(FAILING_OVER | STARTING_OR_STOPPING | ENDED | BROKEN | {40197, 40501, 40613}))
def test_what_concerns_all_that_goes_over_the_connection_is_told_apart(number: int) -> None:
    assert isinstance(meaning(number, "" if number in BROKEN else "it says", WHERE), ConnectionLost)


@pytest.mark.parametrize("number", sorted(CONFLICTS | SHORT_OF_SOMETHING | {54321}))
def test_what_one_statement_met_is_no_lost_connection(number: int) -> None:
    assert not isinstance(meaning(number, "it says", WHERE), ConnectionLost)


def test_an_error_that_nobody_foresaw_is_tried_again() -> None:
    assert isinstance(meaning(54321, "something new", WHERE), TransientError)


@pytest.mark.parametrize("number", [*sorted(RIGHTS), 102, 207, 208, 2812, 4104, 8152, 2628])
def test_what_time_cannot_heal_is_permanent_and_has_a_remedy(number: int) -> None:
    found = meaning(number, "it says", WHERE)
    assert isinstance(found, PermanentError)
    assert found.hint
    assert "it says" in found.message


def test_a_refusal_in_schema_cdc_comes_with_the_statement_that_grants_it() -> None:
    text = "The SELECT permission was denied on the object 'change_tables', database 'db', schema 'cdc'."
    assert "GRANT SELECT ON SCHEMA::cdc" in (meaning(229, text, "here").hint or "")
    other = "The UPDATE permission was denied on the object 'cdc_offsets', database 'db', schema 'dbo'."
    assert "SCHEMA::cdc" not in (meaning(229, other, "here").hint or "")


def test_a_missing_object_of_schema_cdc_is_a_database_without_change_data_capture() -> None:
    assert "sp_cdc_enable_db" in (meaning(208, "Invalid object name 'cdc.lsn_time_mapping'.", "here").hint or "")
    for own in ("dbo.cdc_offsets", "dbo.cdc_snapshots"):
        hint = meaning(208, f"Invalid object name '{own}'.", "here").hint
        assert hint == f"check that {own} exists and is as docs/install.md describes it"


@pytest.mark.parametrize(
    ("number", "text", "said"),
    [
        (
            245,
            "Conversion failed when converting the nvarchar value 'it''s (secret)' to data type int.",
            "Conversion failed when converting the nvarchar value ***",
        ),
        (245, "Fehler beim Konvertieren des nvarchar-Werts 'secret' in den int-Datentyp.", "des nvarchar-Werts ***"),
        (248, "The conversion of the varchar value 'secret' overflowed an int column.", "of the varchar value ***"),
        (244, "The conversion of the varchar value 'secret' overflowed an INT1 column.", "of the varchar value ***"),
        (220, "Arithmetic overflow error for data type tinyint, value = 300.", "data type tinyint, value ***"),
        (232, "Arithmetic overflow error for type int, value = 300.25.", "for type int, value ***"),
        (8114, "Error converting data type nvarchar to numeric.", "Error converting data type nvarchar to numeric."),
        (
            2628,
            "String or binary data would be truncated in table 'db.dbo.cdc_offsets', column 'table_name'. Truncated value: 'secret'.",
            "truncated in table 'db.dbo.cdc_offsets', column 'table_name'. Truncated value: ***",
        ),
        (
            2627,
            "Violation of PRIMARY KEY constraint 'pk'. Cannot insert duplicate key in object 'dbo.t'. The duplicate key value is (secret, 300).",
            "in object 'dbo.t'. The duplicate key value is ***",
        ),
        (
            6522,
            'A .NET Framework error occurred during execution of user-defined routine or aggregate "geography": 24114: The label secret',
            "user-defined routine or aggregate ***",
        ),
    ],
)
def test_a_value_of_a_row_is_not_repeated_from_what_the_server_says(number: int, text: str, said: str) -> None:
    found = meaning(number, text, WHERE).message
    assert found.endswith(said)
    assert "secret" not in found
    assert "300" not in found


def test_a_text_without_values_stays_as_the_server_wrote_it() -> None:
    text = "Invalid column name 'Email'."
    assert meaning(207, text, WHERE).message == f"{WHERE}: error 207: {text}"
