"""`dstream offsets set`: what it means is said before it is done, no owner wins against it, and each move is written down."""

from __future__ import annotations

import json
from contextlib import closing

import pytest

from common.errors import LeaseLost
from ingester.sqlserver.position import LogPosition, Lsn
from ingester.sqlserver.source import SqlServerSource
from ingester.window import source_of
from tests.contracts.operating.conftest import PERSONS, Desk


def before(lsn: str) -> LogPosition:
    return LogPosition.before(Lsn(bytes.fromhex(lsn[2:])))


def end_of(lsn: str) -> LogPosition:
    return LogPosition.end_of(Lsn(bytes.fromhex(lsn[2:])))


def test_set_back_it_says_how_many_changes_are_sent_again_and_the_next_owner_begins_there(desk: Desk) -> None:
    first, second, third = desk.insert(1, 2, 3)
    with desk.owner() as owner:
        owner.offsets.commit(PERSONS, owner.lease.epoch, seen=None, position=end_of(third))
    ran = desk.run("offsets", "set", "persons", "--lsn", second, "--reason", "a topic was deleted")
    assert ran.status == 0, ran.err
    assert f"from:   after LSN {third}" in ran.lines
    assert f"to:     before LSN {second}" in ran.lines
    assert any("2 changes will be sent again" in line for line in ran.lines)
    with desk.owner() as owner:
        assert owner.offsets.load(PERSONS, owner.lease.epoch) == before(second)
    [move] = desk.run("offsets", "moves", "--json").document["moves"]
    assert (move["table"], move["login"], move["reason"]) == ("dbo.Persons", "sa", "a topic was deleted")
    assert (move["from"], move["to"]) == (f"after LSN {third}", f"before LSN {second}")
    assert move["at"].endswith("Z")
    assert move["host"]
    assert first


def test_a_table_that_the_configuration_spells_otherwise_than_before_is_the_same_table(desk: Desk) -> None:
    first, second = desk.insert(1, 2)
    with desk.owner() as owner:
        owner.offsets.commit(PERSONS, owner.lease.epoch, seen=None, position=end_of(second))
    desk.rows("UPDATE dbo.cdc_offsets SET table_name = N'DBO.persons'; SELECT 1")
    [shown] = desk.run("offsets", "--json").document["tables"]
    assert second.lower() in json.dumps(shown).lower()
    ran = desk.run("offsets", "set", "Persons", "--lsn", first)
    assert (ran.status, f"from:   after LSN {second}" in ran.lines) == (0, True), ran.err
    with desk.owner() as owner:
        assert owner.offsets.load(PERSONS, owner.lease.epoch) == before(first)


def test_changes_that_would_never_be_sent_need_skip(desk: Desk) -> None:
    desk.insert(1, 2, 3)
    with desk.owner():
        pass
    refused = desk.run("offsets", "set", "dbo.Persons", "--latest")
    assert refused.status == 1
    assert "refused without --skip: 3 changes would never be sent, and are lost for the subscribers" in refused.lines
    assert desk.run("offsets", "moves", "--json").document == {"moves": []}
    done = desk.run("offsets", "set", "dbo.Persons", "--latest", "--skip")
    assert done.status == 0
    assert "lost:   3 changes will never be sent" in done.lines


def test_a_dry_run_changes_nothing_and_creates_nothing(desk: Desk) -> None:
    desk.insert(1)
    ran = desk.run("offsets", "set", "Persons", "--earliest", "--dry-run")
    assert ran.status == 0
    assert "from:   none: the table was never read" in ran.lines
    assert desk.rows("SELECT COUNT(*) FROM sys.tables WHERE name LIKE 'cdc_offset%'") == [(0,)]


@pytest.mark.parametrize(("lsn", "said"), [("00" * 9 + "01", "below the low watermark"), ("ff" * 10, "beyond")])
def test_beyond_what_is_captured_it_is_refused_and_the_border_is_named(desk: Desk, lsn: str, said: str) -> None:
    desk.insert(1)
    with desk.owner():
        pass
    ran = desk.run("offsets", "set", "Persons", "--lsn", f"0x{lsn}", "--skip", "--take")
    assert ran.status == 1
    assert said in ran.err
    assert "LSN 0x" in ran.err.partition(said)[2]
    assert ("changes before it were removed or never captured" in ran.err) is said.startswith("below")


def test_what_cannot_be_read_is_named(desk: Desk) -> None:
    for arguments, said in (
        (["Persons", "--lsn", "12"], "not an LSN"),
        (["Persons", "--time", "yesterday"], "not a time"),
        (["Persons"], "choose one of --lsn, --time, --earliest and --latest"),
        (["Persons", "--latest", "--earliest"], "choose one of"),
    ):
        ran = desk.run("offsets", "set", *arguments)
        assert said in ran.err
        assert ran.status in (1, 2)
    ran = desk.run("offsets", "set", "Nowhere", "--latest")
    assert ran.status == 2
    assert "the tables are dbo.Persons" in ran.err


def test_a_time_means_the_first_commit_from_then_on_and_one_after_the_last_is_refused(desk: Desk) -> None:
    first, *_ = desk.insert(1, 2)
    with desk.owner():
        pass
    early = desk.run("offsets", "set", "Persons", "--time", "2020-01-01T00:00:00+02:00", "--dry-run")
    assert early.status in (0, 1)
    late = desk.run("offsets", "set", "Persons", "--time", "2999-01-01")
    assert late.status == 1
    assert "nothing was captured at that time or later" in late.err
    [(at,)] = desk.rows(
        f"SELECT CONVERT(varchar(23), tran_end_time, 126) FROM cdc.lsn_time_mapping WHERE start_lsn = {first}"
    )
    exact = desk.run("offsets", "set", "Persons", "--time", f"{at}Z", "--dry-run")
    assert f"to:     before LSN {first}" in exact.lines, "the emulator's server lives in UTC"


@pytest.mark.parametrize(
    ("early", "late"),
    [("0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-12:00"), ("1752-12-31", "9999-12-31T23:59:59.9999Z")],
)
def test_a_time_that_no_server_can_hold_means_the_first_or_the_last(desk: Desk, early: str, late: str) -> None:
    desk.insert(1)
    begun, ended = (desk.run("offsets", "set", "Persons", f"--time={time}", "--dry-run") for time in (early, late))
    assert (begun.err, begun.lines[:1]) == ("", ["table:  dbo.Persons"])
    assert "nothing was captured at that time or later" in ended.err


def test_a_live_owner_needs_take_and_can_commit_nothing_afterwards(desk: Desk) -> None:
    first, second, third = desk.insert(1, 2, 3)
    with desk.owner() as owner:
        owner.offsets.commit(PERSONS, owner.lease.epoch, seen=None, position=end_of(second))
        refused = desk.run("offsets", "set", "Persons", "--lsn", first)
        assert refused.status == 1
        assert any(
            line.startswith("refused without --take: ") and "reads this table now" in line for line in refused.lines
        )
        assert owner.offsets.load(PERSONS, owner.lease.epoch) == end_of(second)
        taken = desk.run("offsets", "set", "Persons", "--lsn", first, "--take")
        assert taken.status == 0, taken.err
        with pytest.raises(LeaseLost):
            owner.offsets.commit(PERSONS, owner.lease.epoch, seen=end_of(second), position=end_of(third))
        with pytest.raises(LeaseLost):
            owner.offsets.load(PERSONS, owner.lease.epoch)
        owner.locks.lost(owner.lease)
        again = owner.locks.acquire(desk.lock)
        assert again is not None
        assert again.epoch > owner.lease.epoch
        assert owner.offsets.claim(PERSONS, again.epoch).position == before(first)


def test_locks_that_do_not_show_their_owner_need_take(desk: Desk) -> None:
    desk.place.settings["locks"] = 'type = "local"'
    first, _ = desk.insert(1, 2)
    refused = desk.run("offsets", "set", "Persons", "--lsn", first, "--skip")
    assert refused.status == 1
    assert any("refused without --take: an ingester may be reading this table now" in line for line in refused.lines)
    assert desk.run("offsets", "set", "Persons", "--lsn", first, "--skip", "--take").status == 0


def test_a_table_that_cleanup_has_overtaken_goes_on_once_the_loss_is_accepted(desk: Desk) -> None:
    _, _, third = desk.insert(1, 2, 3)
    with desk.owner():
        pass
    desk.place.execute(
        "UPDATE dbo.cdc_offsets SET last_lsn = 0x00000000000000000001, last_command_id = -1, "
        "last_seq = 0x00000000000000000000, last_operation = 0",
        f"EXEC sys.sp_cdc_cleanup_change_table @capture_instance = N'dbo_Persons', @low_water_mark = {third}",
    )
    shown = desk.run("offsets", "Persons")
    assert any("changes were lost" in line for line in shown.lines)
    refused = desk.run("offsets", "set", "Persons", "--earliest")
    assert refused.status == 1
    assert any("cleanup has removed the changes between" in line for line in refused.lines)
    assert desk.run("offsets", "set", "Persons", "--earliest", "--skip").status == 0
    with desk.owner() as owner:
        [(low,)] = desk.rows("SELECT start_lsn FROM cdc.change_tables")
        assert owner.offsets.load(PERSONS, owner.lease.epoch) == before("0x" + bytes(low).hex())


def test_without_the_right_to_write_the_grant_is_named(desk: Desk) -> None:
    desk.insert(1)
    with desk.owner():
        pass
    login = f"onlooker_{desk.place.login.database}"
    desk.place.execute(
        f"CREATE LOGIN {login} WITH PASSWORD = N'{desk.place.login.password}'",
        f"CREATE USER onlooker FOR LOGIN {login}",
        "GRANT SELECT ON SCHEMA::cdc TO onlooker",
        "GRANT SELECT ON SCHEMA::dbo TO onlooker",
    )
    desk.place.settings["user"] = login
    assert desk.run("offsets").status in (0, 1)
    ran = desk.run("offsets", "set", "Persons", "--latest", "--skip")
    assert ran.status == 1
    assert "cdc_offset_moves" in ran.err
    assert "GRANT" in ran.err


def test_a_table_that_was_dropped_and_made_again_goes_on_with_the_present_one_once_the_loss_is_accepted(
    desk: Desk,
) -> None:
    desk.insert(1)
    with desk.owner() as owner:
        state = SqlServerSource(owner.offsets._connection).states([PERSONS])[PERSONS]
        owner.offsets.claim(PERSONS, owner.lease.epoch, source_of(state.instances))
    desk.place.execute(
        "EXEC sys.sp_cdc_disable_table @source_schema = N'dbo', @source_name = N'Persons', @capture_instance = N'all'",
        "DROP TABLE dbo.Persons",
        "CREATE TABLE dbo.Persons (ID INT NOT NULL PRIMARY KEY, FirstName NVARCHAR(50) NULL, LastName NVARCHAR(50) NULL)",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Persons', @role_name = NULL",
    )
    refused = desk.run("offsets", "set", "Persons", "--earliest")
    assert refused.status == 1
    assert any("the unread changes of the former table are lost" in line for line in refused.lines)
    assert desk.run("offsets", "set", "Persons", "--earliest", "--skip").status == 0
    with closing(desk.connection()) as connection:
        [stored] = desk.rows("SELECT source_object FROM dbo.cdc_offsets")
        state = SqlServerSource(connection).states([PERSONS])[PERSONS]
        assert stored == (source_of(state.instances),)
