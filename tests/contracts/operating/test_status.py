"""`dstream status`: what the stores know, without any stage, and what could not be read by its name."""

from __future__ import annotations

from typing import Any

import pytest
from azure.servicebus import ServiceBusClient, ServiceBusMessage

from ingester.locks import this_owner
from ingester.sqlserver.connection import Connection
from ingester.sqlserver.position import LogPosition, Lsn
from tests.contracts.check.conftest import LIMITED, LIMITED_KEY
from tests.contracts.operating.conftest import PERSONS, Desk


def test_a_database_where_nothing_has_started_yet_is_known_as_that(desk: Desk) -> None:
    desk.place.make_queue()
    ran = desk.run("status", "--json")
    assert ran.status == 0, ran.out
    found = ran.document
    assert found["complete"] is True
    [table] = found["tables"]
    assert (table["table"], table["lock"], table["owner"], table["offset"]) == ("dbo.Persons", "free", None, None)
    assert table["lag"] == {"seconds": 0.0, "changes": 0, "at_least": False}
    assert table["capture_instance"] == "dbo_Persons"
    assert found["queue"] == {
        "queue": desk.place.queue,
        "active": 0,
        "dead_letters": 0,
        "scheduled": 0,
        "transfer_dead_letters": 0,
    }
    assert desk.rows("SELECT COUNT(*) FROM sys.tables WHERE name LIKE 'cdc_offset%'") == [(0,)]


def test_a_table_has_its_owner_its_offset_and_what_waits_and_the_owner_is_not_disturbed(desk: Desk) -> None:
    desk.place.make_queue()
    first, *_ = desk.insert(1, 2, 3)
    with desk.owner() as owner:
        position = LogPosition.end_of(Lsn(bytes.fromhex(first[2:])))
        owner.offsets.commit(PERSONS, owner.lease.epoch, seen=None, position=position)
        found = desk.run("status", "--json").document
        [table] = found["tables"]
        assert (table["lock"], table["owner"], table["epoch"]) == ("held", this_owner(), owner.lease.epoch)
        assert table["offset"]["lsn"] == first[2:]
        assert table["offset"]["committed_at"].endswith("Z")
        assert table["lag"]["changes"] == 2
        assert 0 <= table["lag"]["seconds"] < 600
        assert table["headroom_seconds"] > 0
        assert found["ingesters"] == [{"owner": this_owner(), "tables": 1}]
        text = desk.run("status").out
        assert this_owner() in text
        assert f"LSN {first}" in text
        owner.offsets.commit(PERSONS, owner.lease.epoch, seen=position, position=position)
        assert owner.locks.renew(owner.lease).epoch == owner.lease.epoch


def test_an_owner_of_a_version_that_does_not_name_itself_has_not_the_name_of_its_predecessor(desk: Desk) -> None:
    with desk.owner():
        desk.place.execute("UPDATE dbo.cdc_offsets SET epoch = epoch + 1")
        found = desk.run("status", "--json").document
        assert [(table["lock"], table["owner"]) for table in found["tables"]] == [("held", None)]
        assert found["ingesters"] == []


def test_many_changes_are_counted_up_to_a_limit(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ingester.commands.status.MOST_COUNTED", 2)
    desk.place.make_queue()
    desk.insert(1, 2, 3)
    [table] = desk.run("status", "--stage", "ingester", "--json").document["tables"]
    assert table["lag"]["changes"] == 2
    assert table["lag"]["at_least"] is True
    assert ">= 2" in desk.run("status", "--stage", "ingester").out


def test_what_waits_is_counted_by_queue_and_subscription(desk: Desk) -> None:
    place = desk.place
    place.make_queue(requires_session=False)
    place.settings["ordering"] = "none"
    place.make_topic("sub1", "sub2")
    with ServiceBusClient.from_connection_string(place.settings["bus"]) as client:
        with client.get_queue_sender(place.queue) as sender:
            sender.send_messages([ServiceBusMessage(b"x", message_id=str(number)) for number in range(3)])
        with client.get_topic_sender(place.topic) as sender:
            sender.send_messages(ServiceBusMessage(b"x", message_id="1"))
        with client.get_queue_receiver(place.queue) as receiver:
            [dead] = receiver.receive_messages(1)
            receiver.dead_letter_message(dead, reason="UnknownDestination")
    found = desk.run("status", "--json").document
    assert (found["queue"]["active"], found["queue"]["dead_letters"]) == (2, 1)
    assert {(one["topic"], one["subscription"], one["active"]) for one in found["topics"]} == {
        (place.topic, "sub1", 1),
        (place.topic, "sub2", 1),
    }
    assert desk.run("status", "--json").document["queue"] == found["queue"], "reading takes nothing"


def test_without_management_rights_the_depths_alone_are_unknown(desk: Desk) -> None:
    desk.place.make_queue()
    begin = desk.place.settings["bus"].partition("SharedAccessKeyName=")[0]
    end = ";UseDevelopmentEmulator=true" if "UseDevelopmentEmulator" in desk.place.settings["bus"] else ""
    desk.place.settings["bus"] = f"{begin}SharedAccessKeyName={LIMITED};SharedAccessKey={LIMITED_KEY}{end}"
    ran = desk.run("status", "--json")
    assert ran.status == 1
    unknown = {one["what"]: one for one in ran.document["unknown"]}
    assert f"queue {desk.place.queue}" in unknown
    assert "Manage" in unknown[f"queue {desk.place.queue}"]["text"]
    assert ran.document["tables"][0]["capture_instance"] == "dbo_Persons"


def test_a_database_that_cannot_be_reached_hides_no_queue(desk: Desk) -> None:
    desk.place.make_queue()
    desk.place.settings["port"] = 1
    ran = desk.run("status", "--json")
    assert ran.status == 1
    assert ran.document["queue"]["active"] == 0
    assert {"offsets", "owners"} <= {one["what"] for one in ran.document["unknown"]}
    assert ran.document["tables"][0]["lock"] == "unknown"


def test_changes_that_the_published_functions_do_not_count_are_a_note_and_no_failure(desk: Desk) -> None:
    desk.place.make_queue()
    desk.place.settings["more"] = 'query_mode = "function"'
    with desk.owner():
        ran = desk.run("status", "--json", "--stage", "ingester")
        told = desk.run("status", "--stage", "ingester")
    assert (ran.status, ran.document["complete"], ran.document["unknown"]) == (0, True, [])
    [note] = ran.document["notes"]
    assert (note["what"], ran.document["tables"][0]["lag"]) == ("lag", None)
    assert 'note: lag: changes are not counted with query_mode = "function"' in told.out
    assert "unknown:" not in told.out


def test_a_queue_that_was_deleted_is_not_said_to_be_still_to_come(desk: Desk) -> None:
    desk.place.make_queue()
    desk.insert(1)
    with desk.owner():
        pass
    assert desk.run("offsets", "set", "Persons", "--latest", "--skip").status == 0
    desk.place.admin.delete_queue(desk.place.queue)
    ran = desk.run("status", "--json")
    [gone] = [one for one in ran.document["unknown"] if one["what"] == f"queue {desk.place.queue}"]
    assert "although changes may have been sent to it" in gone["text"]
    assert "When a queue was deleted" in gone["remedy"]


def test_an_offset_that_the_login_may_not_see_is_unknown_and_not_missing(desk: Desk) -> None:
    desk.place.make_queue()
    desk.insert(1)
    with desk.owner():
        pass
    assert desk.run("offsets", "set", "Persons", "--latest", "--skip").status == 0
    login = f"blind_{desk.place.login.database}"
    desk.place.execute(
        f"CREATE LOGIN {login} WITH PASSWORD = N'{desk.place.login.password}'",
        f"CREATE USER blind FOR LOGIN {login}",
        "GRANT SELECT ON SCHEMA::cdc TO blind",
        "GRANT SELECT ON OBJECT::dbo.Persons TO blind",
    )
    desk.place.settings["user"] = login
    ran = desk.run("status", "--json", "--stage", "ingester")
    assert ran.status == 1
    [hidden] = [one for one in ran.document["unknown"] if one["what"] == "offsets"]
    assert "may not see it" in hidden["text"]
    assert "GRANT SELECT ON OBJECT::dbo.cdc_offsets" in hidden["remedy"]
    assert ran.document["tables"][0]["lag"] is None
    moves = desk.run("offsets", "moves")
    assert (moves.status, moves.out) == (1, "")
    assert "GRANT SELECT ON OBJECT::dbo.cdc_offset_moves" in moves.err
    assert "cdc_offsets does not exist yet, or" in desk.run("offsets", "set", "Persons", "--earliest").err
    desk.place.settings["user"] = "sa"
    desk.place.execute("GRANT SELECT, INSERT, UPDATE ON OBJECT::dbo.cdc_offsets TO blind")
    desk.place.settings["user"] = login
    assert "if dbo.cdc_offset_moves exists, GRANT" in desk.run("offsets", "set", "Persons", "--earliest").err


def test_local_locks_whose_owner_nobody_can_know_are_no_failure(desk: Desk) -> None:
    desk.place.make_queue()
    desk.place.settings["locks"] = 'type = "local"'
    ran = desk.run("status", "--stage", "ingester")
    assert ran.status == 0
    assert "owners" not in "\n".join(ran.lines)


def test_one_table_that_cannot_be_read_hides_no_other(desk: Desk) -> None:
    desk.place.make_queue()
    desk.place.execute(
        "CREATE TABLE dbo.Orders (ID INT NOT NULL PRIMARY KEY)",
        "EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'Orders', @role_name = NULL",
        "CREATE TABLE dbo.Plain (ID INT NOT NULL PRIMARY KEY)",
    )
    desk.place.settings["tables"] = '"Persons", "Orders", "Plain"'
    login = f"half_{desk.place.login.database}"
    desk.place.execute(
        f"CREATE LOGIN {login} WITH PASSWORD = N'{desk.place.login.password}'",
        f"CREATE USER half FOR LOGIN {login}",
        "GRANT SELECT ON SCHEMA::cdc TO half",
        "GRANT SELECT ON SCHEMA::dbo TO half",
        "DENY SELECT ON OBJECT::cdc.dbo_Orders_CT TO half",
    )
    desk.place.settings["user"] = login
    found = desk.run("status", "--stage", "ingester", "--json").document
    lags = {table["table"]: table["lag"] for table in found["tables"]}
    assert lags["dbo.Persons"] == {"seconds": 0.0, "changes": 0, "at_least": False}
    assert lags["dbo.Orders"] is None
    assert "lag of dbo.Orders" in {one["what"] for one in found["unknown"]}
    problems = {table["table"]: table["problem"] for table in found["tables"]}
    assert "sp_cdc_enable_table" in problems["dbo.Plain"]
    assert problems["dbo.Persons"] is None


def test_the_number_of_questions_does_not_grow_with_the_tables(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.place.make_queue()
    asked: list[str] = []
    ask = Connection._result_sets

    def counted(self: Connection, text: str, within: float | None = None) -> Any:
        asked.append(text)
        return ask(self, text, within)

    monkeypatch.setattr(Connection, "_result_sets", counted)
    desk.run("status", "--stage", "ingester")
    few = len(asked)
    names = [f"T{number}" for number in range(12)]
    desk.place.execute(
        *(f"CREATE TABLE dbo.{name} (ID INT NOT NULL PRIMARY KEY)" for name in names),
        *(
            f"EXEC sys.sp_cdc_enable_table @source_schema = N'dbo', @source_name = N'{name}', @role_name = NULL"
            for name in names
        ),
    )
    desk.place.settings["tables"] = ", ".join(f'"{name}"' for name in ["Persons", *names])
    asked.clear()
    desk.run("status", "--stage", "ingester")
    assert len(asked) == few
    assert few < 25
