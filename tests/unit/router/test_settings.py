"""The `router` block and what the router takes from the ingester's: no SQL Server password wanted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from common.config.bind import Bound, read
from common.names import TRANSACTIONS, TableName
from common.servicebus.settings import ServiceBusSettings
from router.settings import RouterSettings, from_document

BUS = "Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=k"

FILE = """ingester {
  db_connection_string = "{{ env "DB" }}"
  queue {
    name = "ingest-queue"
    ordering = "key"
    connection_string = "{{ env "INGEST" }}"
  }
  locks {
    type = "azure_blob"
    connection_string = "{{ env "BLOB" }}"
  }
  tables = ["Persons", "sales.Orders"]
NAMES
}
BLOCK {
  source {
    connection_string = "{{ env "BUS" }}"
  }
  output {
    type = "servicebus"
    connection_string = "{{ env "BUS" }}"
    management_endpoint = "http://localhost:5300/"
  }
MORE
}
"""
NAMES = 'server_name = "SQL01"\ndatabase = "Shop"'


def bound(
    tmp_path: Path, environ: Mapping[str, str], *, names: str = "", block: str = "router", more: str = ""
) -> Bound[RouterSettings]:
    path = tmp_path / "f.hcl"
    path.write_text(FILE.replace("NAMES", names).replace("BLOCK", block).replace("MORE", more), encoding="utf-8")
    return from_document(read(path, environ))


@pytest.mark.parametrize("block", ["router", "publisher"])
def test_the_router_runs_on_its_own_variables_when_names_are_set(tmp_path: Path, block: str) -> None:
    settings = bound(tmp_path, {"BUS": BUS}, names=NAMES, block=block).value
    assert settings is not None
    assert isinstance(settings.source, ServiceBusSettings)
    assert isinstance(settings.output, ServiceBusSettings)
    assert settings.source.connection_string is not None
    assert settings.source.connection_string.get_secret_value() == BUS
    assert settings.source.management_endpoint is None
    assert settings.output.management_endpoint == "http://localhost:5300"
    assert (settings.queue_name, settings.ordering) == ("ingest-queue", "key")
    assert settings.topics == {
        "sql01.shop.persons.events": TableName("dbo", "Persons"),
        "sql01.shop.sales.orders.events": TableName("sales", "Orders"),
    }
    assert (settings.provision, settings.subscriptions) == ("create", ("sub1",))
    assert (settings.slots, settings.prefetch, settings.batch) == (8, 200, 200)


def test_names_come_from_the_address_when_they_are_not_set(tmp_path: Path) -> None:
    settings = bound(tmp_path, {"BUS": BUS, "DB": "Server=10.0.0.1;Database=D;UID=u;PWD=p"}).value
    assert settings is not None
    assert list(settings.topics) == ["10-0-0-1.d.persons.events", "10-0-0-1.d.sales.orders.events"]


@pytest.mark.parametrize("names", ["", 'server_name = "SQL01"', 'database = "Shop"'])
def test_without_names_or_address_the_variable_and_the_remedy_are_told(tmp_path: Path, names: str) -> None:
    (problem,) = bound(tmp_path, {"BUS": BUS}, names=names).problems
    assert problem.line == 2
    assert "variable DB is not set" in problem.text
    assert "ingester.server_name and ingester.database" in problem.text


def test_its_own_unset_variables_are_all_told(tmp_path: Path) -> None:
    assert [problem.line for problem in bound(tmp_path, {}, names=NAMES).problems] == [18, 22]


def test_an_unset_variable_in_a_part_it_needs_of_the_ingester_is_told(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    text = FILE.replace("NAMES", NAMES).replace("BLOCK", "router").replace("MORE", "")
    path.write_text(text.replace('"ingest-queue"', '"{{ env "QUEUE" }}"'), encoding="utf-8")
    (problem,) = from_document(read(path, {"BUS": BUS})).problems
    assert (problem.line, problem.text) == (4, "ingester.queue.name: environment variable QUEUE is not set")


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ("slots = 0", "at least 1"),
        ("prefetch = -1", "at least 0"),
        ("health = 8081", "is a block"),
        ("batch = 1.5", "whole number"),
        ('provision = "maybe"', 'one of "create", "verify", "none"'),
        ('subscriptions = ["sub 1"]', "1 to 50"),
        ('subscriptions = ["sub1", "SUB1"]', "twice"),
        ('subscriptions = "sub1"', "must be a list"),
        ('queue_name = "other"', 'unknown key "queue_name"'),
        ("session = 3", 'did you mean "slots"?'),
    ],
)
def test_a_wrong_setting_is_told_with_its_line(tmp_path: Path, more: str, words: str) -> None:
    (problem,) = bound(tmp_path, {"BUS": BUS}, names=NAMES, more=more).problems
    assert problem.line == 25
    assert words in problem.text


def test_no_subscriptions_is_a_choice(tmp_path: Path) -> None:
    settings = bound(tmp_path, {"BUS": BUS}, names=NAMES, more="subscriptions = []").value
    assert settings is not None
    assert settings.subscriptions == ()


NS = "name.servicebus.windows.net"


def with_namespaces(tmp_path: Path, environ: Mapping[str, str], namespace: str = f'"{NS}"') -> Bound[RouterSettings]:
    path = tmp_path / "f.hcl"
    text = FILE.replace("NAMES", NAMES).replace("BLOCK", "router").replace("MORE", "")
    for variable in ("BUS", "INGEST"):
        text = text.replace(f'connection_string = "{{{{ env "{variable}" }}}}"', f"namespace = {namespace}")
    path.write_text(text.replace("http://localhost:5300/", "https://localhost"), encoding="utf-8")
    return from_document(read(path, environ))


def test_source_and_output_may_be_namespaces(tmp_path: Path) -> None:
    settings = with_namespaces(tmp_path, {}).value
    assert settings is not None
    for bus in (settings.source, settings.output):
        assert isinstance(bus, ServiceBusSettings)
        assert (bus.where, bus.connection_string) == (NS, None)


def test_the_ingesters_namespace_need_not_be_set_for_the_router_and_its_own_must(tmp_path: Path) -> None:
    told = with_namespaces(tmp_path, {}, '"{{ env "NAMESPACE" }}"').problems
    assert [(problem.line, problem.text) for problem in told] == [
        (18, "router.source.namespace: environment variable NAMESPACE is not set"),
        (22, "router.output.namespace: environment variable NAMESPACE is not set"),
    ]


def test_each_side_has_one_way_in(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    text = FILE.replace("NAMES", NAMES).replace("BLOCK", "router").replace("MORE", "")
    text = text.replace('    type = "servicebus"\n', f'    namespace = "{NS}"\n')
    path.write_text(
        text.replace('source {\n    connection_string = "{{ env "BUS" }}"\n', "source {\n"), encoding="utf-8"
    )
    told = [(problem.line, problem.text) for problem in from_document(read(path, {"BUS": BUS})).problems]
    assert sorted(told) == [
        (17, "router.source needs connection_string (a key) or namespace (an identity)"),
        (20, "router.output.namespace is given as well as connection_string; give only one of them"),
        (
            22,
            "router.output.management_endpoint must be https:// with a namespace: a token must not travel in clear text",
        ),
    ]


@pytest.mark.parametrize("block", ["router", "publisher"])
def test_a_connection_string_of_another_entity_is_told_with_its_line(tmp_path: Path, block: str) -> None:
    found = bound(tmp_path, {"BUS": f"{BUS};EntityPath=sql01.shop.persons.events"}, names=NAMES, block=block).problems
    scope = "connection_string is for sql01.shop.persons.events alone (EntityPath)"
    remedy = "use a connection string of the namespace, which has no EntityPath"
    assert [(problem.line, problem.text) for problem in found] == [
        (18, f"{block}.source.{scope}, and the queue is ingest-queue: {remedy}"),
        (22, f"{block}.output.{scope}, and the router sends to sql01.shop.persons.events and others: {remedy}"),
    ]


def test_a_connection_string_of_the_one_entity_that_is_needed_serves(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    text = FILE.replace("NAMES", NAMES).replace("BLOCK", "router").replace("MORE", "").replace(', "sales.Orders"', "")
    text = text.replace('{{ env "BUS" }}', f"{BUS};EntityPath=Ingest-Queue", 1)
    path.write_text(text.replace('{{ env "BUS" }}', f"{BUS};EntityPath=SQL01.shop.persons.events"), encoding="utf-8")
    assert from_document(read(path, {})).problems == []


def test_a_file_without_blocks_says_which_are_missing(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    path.write_text("", encoding="utf-8")
    told = {problem.text for problem in from_document(read(path, {})).problems}
    assert told == {
        'block "router" is missing',
        'block "ingester" is missing: the router takes queue and tables from it',
    }


def test_stop_at_poison_is_refused_where_the_queue_has_no_sessions(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    text = FILE.replace("NAMES", NAMES).replace("BLOCK", "router").replace("MORE", 'on_poison = "stop"')
    path.write_text(text.replace('ordering = "key"', 'ordering = "none"'), encoding="utf-8")
    (problem,) = from_document(read(path, {"BUS": BUS})).problems
    assert problem.line == text[: text.index("on_poison")].count("\n") + 1
    assert "needs sessions" in problem.text


@pytest.mark.parametrize(("cores", "more", "workers"), [(64, "", 4), (4, "", 4), (1, "", 1), (64, "workers = 16", 16)])
def test_there_is_a_worker_for_each_core_but_four_at_the_most_unless_more_are_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cores: int, more: str, workers: int
) -> None:
    monkeypatch.setattr("router.settings.usable_cores", lambda: cores)
    settings = bound(tmp_path, {"BUS": BUS}, names=NAMES, more=more).value
    assert settings is not None
    assert settings.workers == workers


def test_topics_are_made_as_this_configurations_own_begin_unless_it_says_otherwise(tmp_path: Path) -> None:
    own = bound(tmp_path, {"BUS": BUS}, names=NAMES).value
    other = bound(tmp_path, {"BUS": BUS}, names=NAMES, more='create_under = ["A.", "b."]').value
    assert own is not None
    assert other is not None
    assert (own.create_under, other.create_under) == (("sql01.shop.",), ("a.", "b."))


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("", ()),
        ('create_under = ["a."]', ("router.create_under",)),
        ("create_under = []\n create_at_most = 100", ("router.create_under", "router.create_at_most")),
        ('create_under = ["a."]\n unknown_destination = "create"', ()),
    ],
)
def test_settings_about_topics_to_create_are_named_where_none_is_created(
    tmp_path: Path, more: str, named: Sequence[str]
) -> None:
    settings = bound(tmp_path, {"BUS": BUS}, names=NAMES, more=more).value
    assert settings is not None
    assert settings.creating_nothing == named


@pytest.mark.parametrize("window", ["19s", "169h", "0s"])
def test_a_duplicate_window_that_the_service_does_not_take_is_refused(tmp_path: Path, window: str) -> None:
    [problem] = bound(tmp_path, {"BUS": BUS}, names=NAMES, more=f'duplicate_window = "{window}"').problems
    assert "20s" in problem.text
    assert "168h" in problem.text


def test_the_older_name_of_slots_still_works_and_is_remembered_with_its_line(tmp_path: Path) -> None:
    found = bound(tmp_path, {"BUS": BUS}, names=NAMES, more="sessions = 3").value
    assert found is not None
    assert found.slots == 3
    [renamed] = found.remarks
    assert (renamed.setting, renamed.hint) == ("router.sessions", "write router.slots")
    line = (tmp_path / "f.hcl").read_text(encoding="utf-8").splitlines()[renamed.line - 1]
    assert line.strip() == "sessions = 3"


def test_a_file_without_older_names_has_none_to_report(tmp_path: Path) -> None:
    found = bound(tmp_path, {"BUS": BUS}, names=NAMES, more="slots = 3").value
    assert found is not None
    assert (found.slots, found.remarks) == (3, ())


@pytest.mark.parametrize("pair", [("sessions", "slots"), ("slots", "sessions")])
def test_both_names_of_a_setting_are_an_error_with_both_lines(tmp_path: Path, pair: tuple[str, str]) -> None:
    [problem] = bound(tmp_path, {"BUS": BUS}, names=NAMES, more=f"{pair[0]} = 3\n{pair[1]} = 3").problems
    lines = (tmp_path / "f.hcl").read_text(encoding="utf-8").splitlines()
    assert lines[problem.line - 1].strip() == f"{pair[1]} = 3"
    assert problem.text == (
        f'"sessions" is the older name of "slots", and both are given (first on line {problem.line - 1}): remove "sessions"'
    )


def test_a_complaint_about_a_setting_names_it_as_the_file_does(tmp_path: Path) -> None:
    [problem] = bound(tmp_path, {"BUS": BUS}, names=NAMES, more="sessions = 0").problems
    assert problem.text == "router.sessions must be at least 1"


ENVELOPES = [
    ("", ("dstream", "structured", False), []),
    ('envelope = "cloudevents"\ncloudevents_mode = "binary"', ("cloudevents", "binary", False), []),
    ('envelope = "debezium"\ntombstones = true', ("debezium", "structured", True), []),
    ("tombstones = true", ("dstream", "structured", True), ["tombstones"]),
    ('envelope = "debezium"\ncloudevents_mode = "binary"', ("debezium", "binary", False), ["cloudevents_mode"]),
]


@pytest.mark.parametrize(("lines", "expected", "idle"), ENVELOPES)
def test_an_output_chooses_its_envelope_and_settings_of_another_have_no_effect(
    tmp_path: Path, lines: str, expected: tuple[str, str, bool], idle: list[str]
) -> None:
    path = tmp_path / "f.hcl"
    text = FILE.replace("NAMES", NAMES).replace("BLOCK", "router").replace("MORE", "")
    path.write_text(text.replace('    type = "servicebus"\n', lines + "\n"), encoding="utf-8")
    settings = from_document(read(path, {"BUS": BUS})).value
    assert settings is not None
    output = settings.output.enveloped
    assert output is not None
    assert (output.envelope, output.cloudevents_mode, output.tombstones) == expected
    assert [(it.event, it.setting) for it in settings.remarks] == [
        ("setting has no effect", f"router.output.{name}") for name in idle
    ]
    for it in settings.remarks:
        assert it.setting.rpartition(".")[2] in path.read_text(encoding="utf-8").splitlines()[it.line - 1]


def test_an_envelope_that_does_not_exist_names_those_that_do(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    text = FILE.replace("NAMES", NAMES).replace("BLOCK", "router").replace("MORE", "")
    path.write_text(text.replace('type = "servicebus"', 'envelope = "avro"'), encoding="utf-8")
    (problem,) = from_document(read(path, {"BUS": BUS})).problems
    assert 'router.output.envelope must be one of "dstream", "cloudevents", "debezium", "changes"' in problem.text


def test_the_topic_of_transactions_is_one_of_the_routers_where_they_are_configured(tmp_path: Path) -> None:
    text = FILE.replace("NAMES", NAMES).replace("BLOCK", "router").replace("MORE", "")
    path = tmp_path / "f.hcl"
    path.write_text(text.replace("ingester {", "ingester {\n transactions = true", 1), encoding="utf-8")
    settings = from_document(read(path, {"BUS": BUS})).value
    assert settings is not None
    assert settings.topics["sql01.shop.cdc.transactions.events"] == TRANSACTIONS
    assert len(settings.topics) == 3
