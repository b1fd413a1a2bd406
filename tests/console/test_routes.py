"""Each route over the invented desk: what it asks, and the document that it answers with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from pydantic import BaseModel, TypeAdapter

from desk.console.http import session
from desk.console.http.app import described_app
from desk.console.http.describe import description
from desk.console.http.problems import Problem
from desk.documents import audit, configuring, messages, overview, tables
from desk.documents.shape import Page
from tests.console.serving import Running, running

ROOT = Path(__file__).parents[2]
PATHS = described_app().openapi()["paths"]
ENTITY = "topic/sql-prod-3.shop.dbo.orders.events/warehouse"

GET: dict[str, Any] = {
    "session": session.Session,
    "overview": overview.Overview,
    "entities": Page[overview.Entity],
    "topics": Page[overview.Topic],
    "processes": Page[overview.Process],
    "unacknowledged": Page[overview.Unacknowledged],
    "tables": Page[tables.Table],
    "tables/dbo.orders": tables.Table,
    "tables/dbo.orders/history": tables.History,
    "history": tables.History,
    "offsets": Page[tables.TableOffset],
    "offsets/moves?table=dbo.Orders": Page[tables.Move],
    "snapshots": Page[tables.Snapshot],
    "messages?entity=queue&most=7": messages.MessagePage,
    f"messages?entity={ENTITY}&newest_first=true": messages.MessagePage,
    "messages?entity=queue&dead=true&reason=FilterFailed&since=2020-01-01T00:00:00Z": messages.MessagePage,
    "stories?event_id=shop.dbo.Orders:00-1-00-4": messages.Stories,
    "stories?table=dbo.Orders&key.ID=7&key.Part%20No=a%26b": messages.Stories,
    "dead-letters": messages.DeadLetterCounts,
    "operations": Page[messages.Operation],
    "sources": Page[configuring.Source],
    "outputs": Page[configuring.Output],
    "configuration": configuring.Configuration,
    "audit": Page[audit.AuditLine],
}


@pytest.fixture(scope="module")
def own() -> Iterator[Running]:
    """For tests that change something."""
    with running() as found:
        yield found


@pytest.mark.parametrize("path", GET)
def test_a_route_that_looks_answers_with_its_document(console: Running, path: str) -> None:
    answer = console.get(path)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["cache-control"] == "no-store"
    TypeAdapter(GET[path]).validate_json(answer.content)


def test_every_route_that_looks_is_tried_here() -> None:
    tried = {path.partition("?")[0] for path in GET} | {"tables/{table}", "tables/{table}/history"}
    known = {path.removeprefix("/api/v1/") for path, found in PATHS.items() if "get" in found}
    assert known - tried == {"events", "messages/{sequence}", "operations/{id}"}  # in tests of their own


@pytest.mark.parametrize(
    "name", ["sales.Order Details", "stock.Ledger/2026", "dbo.Straße", "hr.v1.Absences", "DBO.ORDERS"]
)
def test_a_table_has_any_name(console: Running, name: str) -> None:
    path = f"tables/{quote(name, safe='')}"
    assert console.get(path).json()["table"].casefold() == name.casefold()
    assert console.get(f"{path}/history").json()["table"].casefold() == name.casefold()


def test_a_name_that_ends_like_a_route_is_a_name(console: Running) -> None:
    answer = console.get(f"tables/{quote('dbo.Orders/history', safe='')}")
    assert answer.status_code == 404
    assert "dbo.Orders/history" in answer.json()["detail"]


@pytest.mark.parametrize("sort", ["configured", "name", "state", "lag", "changes", "headroom", "rate"])
def test_pages_of_tables_have_each_table_once(sort: str) -> None:
    with running(tables=60) as console:
        found, after = list[str](), dict[str, str]()
        while True:
            page = console.get("tables", params={"sort": sort, "most": 7, **after}).json()
            found += [each["table"] for each in page["items"]]
            if page["next"] is None:
                break
            after = {"after": page["next"]}
    assert len(found) >= 55  # those whose value moves between two pages may be missed, or come again
    if sort in ("configured", "name"):
        assert len(found) == len(set(found)) == 60


def test_tables_are_chosen_by_state_and_by_a_part_of_the_name(console: Running) -> None:
    found = console.get("tables", params={"state": ["gap", "stopped"], "search": "LEDGER"}).json()
    assert [each["table"] for each in found["items"]] == ["stock.Ledger/2026"]
    assert found["total"] == 1


def test_a_message_is_shown_whole(console: Running) -> None:
    first = console.get("messages", params={"entity": "queue", "dead": True, "most": 1}).json()["items"][0]
    found = console.get(f"messages/{first['sequence']}", params={"entity": "queue", "dead": True})
    detail = messages.MessageDetail.model_validate_json(found.content)
    assert detail.body is not None
    assert json.loads(detail.body)["metadata"]["EventID"] == first["event_id"]


CHANGES: list[tuple[str, str, dict[str, Any], int, type[BaseModel], str | None]] = [
    ("POST", "tables/dbo.Orders/pause", {"reason": "a load"}, 200, tables.Table, "table.pause"),
    ("POST", "tables/dbo.Orders/resume", {}, 200, tables.Table, "table.resume"),
    ("POST", "tables/dbo.Orders/offset", {"earliest": True}, 200, tables.OffsetResult, None),
    (
        "POST",
        "tables/dbo.Orders/offset",
        {"earliest": True, "take": True, "dry_run": False},
        200,
        tables.OffsetResult,
        "offset.move",
    ),
    ("POST", "snapshots", {"table": "dbo.Orders"}, 200, tables.SnapshotAnswer, None),
    ("POST", "snapshots", {"table": "dbo.Orders", "dry_run": False}, 200, tables.SnapshotAnswer, "snapshot.start"),
    ("POST", f"snapshots/{0xA0:032x}/pause", {}, 200, tables.Snapshot, "snapshot.pause"),
    ("POST", f"snapshots/{0xA0:032x}/resume", {}, 200, tables.Snapshot, "snapshot.resume"),
    ("POST", f"snapshots/{0xA0:032x}/stop", {}, 200, tables.Snapshot, "snapshot.stop"),
    ("POST", "dead-letters/plan", {"entity": "queue"}, 200, messages.DeadLetterResult, None),
    (
        "POST",
        "dead-letters/replay",
        {"entity": "queue", "dry_run": False, "sequences": list(range(3000))},
        202,
        messages.Operation,
        "dead_letters.replay",
    ),
    ("POST", "operations/replay-1/stop", {}, 200, messages.Operation, "operation.stop"),
    ("POST", "dead-letters/purge", {"entity": ENTITY, "dry_run": False}, 202, messages.Operation, "dead_letters.purge"),
    ("POST", "stories", {"table": "dbo.Orders", "key": {"ID": "7"}}, 200, messages.Stories, None),
    ("POST", "sources", {"name": "crm.*", "dry_run": False}, 200, configuring.Edit, "source.add"),
    (
        "PUT",
        "sources/crm.%2A",
        {"name": "crm.*", "settings": {"filter": "true"}, "dry_run": False},
        200,
        configuring.Edit,
        "source.change",
    ),
    ("DELETE", "sources/crm.%2A?dry_run=false&reason=over", {}, 200, configuring.Edit, "source.remove"),
    ("POST", "outputs", {"name": "web", "type": "webhook", "dry_run": False}, 200, configuring.Edit, "output.add"),
    (
        "PUT",
        "outputs/web",
        {"name": "web", "type": "webhook", "settings": {"url": "https://x"}, "dry_run": False},
        200,
        configuring.Edit,
        "output.change",
    ),
    ("DELETE", "outputs/web?dry_run=false", {}, 200, configuring.Edit, "output.remove"),
    ("POST", "configuration/undo", {"dry_run": False}, 200, configuring.Edit, "configuration.undo"),
]


@pytest.mark.parametrize(("method", "path", "body", "status", "document", "action"), CHANGES)
def test_a_change_is_made_and_written_down_before_and_after(
    own: Running,
    method: str,
    path: str,
    body: dict[str, Any],
    status: int,
    document: type[BaseModel],
    action: str | None,
) -> None:
    before = len(own.audit.written)
    seen = {"If-Match": own.get("configuration").headers["etag"]} if path == "configuration/undo" else {}
    answer = own.client.request(method, f"/api/v1/{path}", json=body, headers=seen)
    assert answer.status_code == status, answer.text
    document.model_validate_json(answer.content)
    lines = [line for line in own.audit.written[before:] if line.request == answer.headers["x-request-id"]]
    if action is None:
        assert lines == []
        return
    assert (lines[0].action, lines[0].outcome) == (action, "begun")
    if document is not messages.Operation or action == "operation.stop":
        assert [(line.action, line.outcome) for line in lines[1:]] == [(action, "done")]
    assert {(line.who, line.through, line.address) for line in lines} == {("anna", "http", "127.0.0.1")}


def test_every_route_that_changes_is_tried_above() -> None:
    here = {
        (
            method,
            path.replace("dbo.Orders", "{table}")
            .partition("?")[0]
            .replace(f"{0xA0:032x}", "{id}")
            .replace("replay-1", "{id}"),
        )
        for method, path, *_ in CHANGES
    }
    here = {
        (method, path.replace("crm.%2A", "{name}").replace("outputs/web", "outputs/{name}")) for method, path in here
    }
    known = {
        (method.upper(), path.removeprefix("/api/v1/"))
        for path, found in PATHS.items()
        for method in found
        if method != "get"
    }
    assert known - here == {("POST", "session"), ("DELETE", "session")}


def test_a_refused_change_is_written_down_with_its_reason(own: Running) -> None:
    assert own.post("tables/sales.Invoices/pause").status_code == 409
    begun, refused = [line for line in own.audit.written if line.target == "sales.Invoices"][-2:]
    assert (begun.outcome, refused.outcome) == ("begun", "refused")
    assert "paused already" in refused.details["why"]


def test_a_move_that_lacks_a_confirmation_is_written_down_as_refused(own: Running) -> None:
    assert own.post("tables/dbo.Persons/offset", {"latest": True, "dry_run": False}).json()["moved"] is False
    last = [line for line in own.audit.written if line.action == "offset.move"][-1]
    assert (last.outcome, last.details["lacking"]) == ("refused", ["skip"])


def test_no_value_of_a_setting_is_in_the_audit_log(own: Running) -> None:
    order = {"name": "pw", "type": "webhook", "settings": {"password": "hunter2-in-the-clear"}, "dry_run": False}
    answer = own.post("outputs", order)
    assert answer.status_code == 422
    assert "hunter2" not in answer.text
    assert "hunter2" not in repr(own.audit.written)


def test_the_configuration_changes_only_from_the_revision_that_was_seen(own: Running) -> None:
    seen = own.get("configuration").headers["etag"]
    order = {"name": "web.*", "dry_run": False}
    first = own.post("sources", order, headers={"If-Match": seen})
    assert first.status_code == 200
    assert first.headers["etag"] != seen
    order["name"] = "audit.*"
    late = own.post("sources", order, headers={"If-Match": seen})
    assert late.status_code == 409
    assert late.json()["remedy"]


def test_an_undo_names_what_was_seen(own: Running) -> None:
    before = own.get("configuration").headers["etag"]
    for headers in ({}, {"If-Match": "*"}):
        answer = own.post("configuration/undo", {"dry_run": False}, headers=headers)
        assert (answer.status_code, "If-Match" in answer.text) == (422, True)
    assert own.get("configuration").headers["etag"] == before


@pytest.mark.parametrize(
    ("method", "path", "body", "status", "word"),
    [
        ("GET", "tables/nope", None, 404, "not-found"),
        ("GET", "nope", None, 404, "not-found"),
        ("PATCH", "tables", {}, 405, "method"),
        ("GET", "tables?moost=1", None, 422, "invalid"),
        ("GET", "tables?after=x", None, 422, "invalid"),
        ("GET", "tables?after=WyJsYWciLCAxLCAieCJd", None, 422, "invalid"),
        ("GET", "stories?id=1", None, 422, "invalid"),
        ("GET", "stories", None, 422, "invalid"),
        ("GET", "stories?table=dbo.Orders&key.ID=", None, 422, "invalid"),
        ("GET", "messages?entity=queue&since=1700000000", None, 422, "invalid"),
        ("POST", "dead-letters/plan", {"entity": "queue", "filter": {"until": 1700000000.5}}, 422, "invalid"),
        ("GET", "operations/none", None, 404, "not-found"),
        ("GET", "messages/-1?entity=queue", None, 422, "invalid"),
        ("POST", "tables/dbo.Orders/pause", {"reasn": "x"}, 422, "invalid"),
        ("POST", "tables/dbo.Orders/offset", {"lsn": "xyz"}, 422, "invalid"),
        ("PUT", "outputs/a", {"name": "b", "type": "kafka"}, 422, "invalid"),
        ("DELETE", "sources/none?dry_run=false", None, 404, "not-found"),
    ],
)
def test_an_error_is_one_document(console: Running, method: str, path: str, body: Any, status: int, word: str) -> None:
    answer = console.client.request(method, f"/api/v1/{path}", json=body)
    problem = Problem.model_validate_json(answer.content)
    assert (answer.status_code, problem.status, problem.type) == (status, status, f"about:blank#{word}")
    assert answer.headers["content-type"] == "application/problem+json"
    assert problem.request == answer.headers["x-request-id"]
    assert "Traceback" not in answer.text


def test_what_was_given_is_not_in_an_error(console: Running) -> None:
    answer = console.post("outputs", {"name": "x", "type": ["s3cret-value"], "settings": {}})
    assert answer.status_code == 422
    assert "s3cret" not in answer.text


def test_the_copy_of_the_description_is_the_code_s() -> None:
    """`python -m desk.console.http.describe api/openapi.json` writes it."""
    assert (ROOT / "api" / "openapi.json").read_text(encoding="utf-8") == description()


def test_nothing_is_loaded_from_another_host(console: Running) -> None:
    for path in ("/docs", "/redoc", "/openapi.json"):
        assert console.client.get(path).status_code == 404
