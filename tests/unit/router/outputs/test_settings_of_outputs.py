"""Several outputs in a file: their names and places, complaints that name them, and what reaches the log."""

from __future__ import annotations

from pathlib import Path

import pytest

from common.config.bind import Bound, read
from router.outputs.azure_service_bus.settings import ServiceBusOutput
from router.settings import RouterSettings, from_document

BUS = "Endpoint=sb://x.servicebus.windows.net;SharedAccessKeyName=n;SharedAccessKey=k"

FILE = """ingester {
  db_connection_string = "{{ env "DB" }}"
  server_name = "SQL01"
  database = "Shop"
  queue {
    name = "ingest-queue"
    connection_string = "{{ env "BUS" }}"
  }
  tables = ["Persons", "sales.Persons"]
}
router {
  source { connection_string = "{{ env "BUS" }}" }
  output { connection_string = "{{ env "BUS" }}" }
OUTPUTS
}
"""


def bound(tmp_path: Path, outputs: str, *, routed: bool = False, file: str = FILE) -> Bound[RouterSettings]:
    path = tmp_path / "f.hcl"
    route = '\n  route { to = ["default", "far"] }' if routed else ""
    path.write_text(file.replace("OUTPUTS", outputs + route), encoding="utf-8")
    return from_document(read(path, {"BUS": BUS}))


def test_outputs_are_found_by_their_labels_the_default_first(tmp_path: Path) -> None:
    settings = bound(tmp_path, '  output "far" { namespace = "far.servicebus.windows.net" }').value
    assert settings is not None
    assert list(settings.all_outputs) == ["default", "far"]
    assert (settings.output.is_default, settings.outputs[0].is_default) == (True, False)
    assert "far at far.servicebus.windows.net" in str(settings.reaches["outputs"])


@pytest.mark.parametrize(
    ("outputs", "line", "complaint"),
    [
        (
            '  output "far" {\n namespace = "far.servicebus.windows.net"\n topic = "{table}"\n }',
            16,
            "router.output.far.topic gives dbo.Persons and sales.Persons the same place, persons: add {schema} or {topic} to it",
        ),
        (
            '  output "far" {\n connection_string = {{ env "BUS" }}\n queue = "Ingest-Queue"\n }',
            16,
            "router.output.far.queue names ingest-queue, which is the ingest queue: changes would go round for ever",
        ),
        (
            '  output "far" {\n namespace = "far.servicebus.windows.net"\n topic = "{tabl}"\n }',
            16,
            "router.output.far.topic has {tabl}, which is not known here; a template may have {server}, {database}, {schema}, {table}, {topic}",
        ),
        (
            '  output "far" {\n namespace = "far.servicebus.windows.net"\n topic = "{schema}.{table}"\n queue = "{topic}"\n }',
            17,
            "router.output.far.queue is given as well as topic; give only one of them",
        ),
    ],
)
def test_a_mistake_names_the_output_and_its_line(tmp_path: Path, outputs: str, line: int, complaint: str) -> None:
    assert (line, complaint) in [(each.line, each.text) for each in bound(tmp_path, outputs, routed=True).problems]


@pytest.mark.parametrize(
    ("ordering", "deletes", "refused"),
    [("table", "remove", False), ("key", "mark", False), ("key", "remove", True), ("none", "remove", True)],
)
def test_documents_are_removed_only_where_a_table_has_one_session(
    tmp_path: Path, ordering: str, deletes: str, refused: bool
) -> None:
    search = f"""  output "far" {{
    type = "opensearch"
    urls = ["https://localhost"]
    deletes = "{deletes}"
  }}"""
    more = f'name = "ingest-queue"\n ordering = "{ordering}"'
    found = bound(tmp_path, search, routed=True, file=FILE.replace('name = "ingest-queue"', more)).problems
    assert [(each.line, each.text[:50]) for each in found] == (
        [(18, 'router.output.far.deletes needs queue.ordering = "')] if refused else []
    )


def test_a_setting_without_effect_names_the_output(tmp_path: Path) -> None:
    settings = bound(
        tmp_path, '  output "far" {\n namespace = "far.servicebus.windows.net"\n tombstones = true\n }'
    ).value
    assert settings is not None
    assert [(it.line, it.event, it.setting) for it in settings.remarks] == [
        (16, "setting has no effect", "router.output.far.tombstones"),
        (14, "output gets nothing", "router.output.far"),
    ]


def test_an_output_that_a_route_names_gets_something(tmp_path: Path) -> None:
    far = '  output "far" {\n namespace = "far.servicebus.windows.net"\n }\n  route {\n to = ["far"]\n }'
    settings = bound(tmp_path, far).value
    assert settings is not None
    assert settings.remarks == ()


def test_a_route_to_an_output_that_is_not_there_is_refused_with_its_line(tmp_path: Path) -> None:
    problems = bound(tmp_path, '  route {\n to = ["default", "far"]\n }').problems
    assert [str(it.text) for it in problems] == [
        'router.route.to names the output "far", which no block has; there are default'
    ]


def test_an_output_in_code_has_its_name(tmp_path: Path) -> None:
    assert ServiceBusOutput(namespace="far.servicebus.windows.net", name="far").name == "far"


def test_routes_give_outputs_their_streams(tmp_path: Path) -> None:
    more = """  output "far" { namespace = "far.servicebus.windows.net" }
  route {
    from = ["Persons"]
    to   = ["far", "default"]
  }
  route {
    from  = ["sales.*"]
    to    = ["far"]
    topic = "renamed-{table}"
  }"""
    settings = bound(tmp_path, more).value
    assert settings is not None
    streams = settings.streams["far"]
    assert [stream.destination for stream in streams.values()] == ["sql01.shop.persons.events", "renamed-persons"]
    assert list(settings.streams["default"]) == ["sql01.shop.persons.events"]


HOOK = '  output "far" {\n type = "webhook"\n url = "https://hooks.example/{table}"\n bearer_token = "t"\n }\n'
INDEX = '  output "far" {\n type = "elasticsearch"\n urls = ["https://es.example"]\n }\n'
CONSOLE = '  output "far" {\n type = "console"\n }\n'
EARLIER = "router.route.topic, for the output far: "


@pytest.mark.parametrize(
    ("output", "place", "complaint"),
    [
        (HOOK, "https://u:hunter2@hooks.example/{table}", "must not hold a user or password"),
        (HOOK, "https://hooks.example/{table}?code=hunter2", "must end before ? or #"),
        (HOOK, "{table}?code=hunter2", "must end before ? or #"),
        (HOOK, "https://other.example/{table}", "must name the server of the output's url"),
        (HOOK, "//other.example/{table}", "must name the server of the output's url"),
        (HOOK, "http://hooks.example/{table}", "must name the server of the output's url"),
        (HOOK, "https://hooks.example:444/{table}", "must name the server of the output's url"),
        (HOOK, "https://hooks.example/{tabel}", "has a name in braces that is not known here"),
        (HOOK, "https://[/{table}", "is not an address"),
        (HOOK, "https://hooks.example:x/{table}", "is not an address"),
        (INDEX, "all", "must have {table} or {topic}"),
        (INDEX, "{tabel}", "has a name in braces that is not known here"),
        (INDEX, "A b{table}", "has characters that no index can have"),
    ],
)
def test_the_topic_of_a_route_is_judged_by_the_output(tmp_path: Path, output: str, place: str, complaint: str) -> None:
    (found,) = bound(
        tmp_path,
        f'{output}  route {{\n to = ["default", "far"]\n}}\n  route {{\n to = ["far"]\n topic = "{place}"\n }}',
    ).problems
    assert found.text.startswith(EARLIER + complaint)
    assert "hunter2" not in found.text
    assert found.line == 14 + output.count("\n") + 5


@pytest.mark.parametrize(
    ("output", "place"),
    [(HOOK, "https://HOOKS.example:443/all"), (HOOK, "people/{table}"), (INDEX, "x-{schema}-{table}"), (CONSOLE, "x")],
)
def test_the_topic_of_a_route_may_be_what_the_output_allows(tmp_path: Path, output: str, place: str) -> None:
    route = f'  route {{\n from = ["Persons"]\n to = ["far"]\n topic = "{place}"\n }}'
    assert [each.text for each in bound(tmp_path, output + route).problems] == []


def test_tables_share_the_place_of_a_route_only_where_it_names_no_table(tmp_path: Path) -> None:
    far = '  output "far" { namespace = "far.servicebus.windows.net" }\n  route {\n to = ["far"]\n topic = "%s"\n }'
    assert bound(tmp_path, far % "everything").problems == []
    (found,) = bound(tmp_path, far % "again-{table}").problems
    assert "gives dbo.Persons and sales.Persons the same place, again-persons" in found.text


def test_what_a_route_says_without_effect_is_remarked(tmp_path: Path) -> None:
    route = '  route {\n from = ["Persons", "sales.*", "*.persons.events"]\n to = ["far"]\n }\n'
    wrong = '  route {\n from = ["Person", "!hr.*"]\n to = ["far"]\n topic = "{table}"\n }'
    settings = bound(tmp_path, CONSOLE + route + wrong).value
    assert settings is not None
    assert [(each.line, each.setting, each.hint.partition(";")[0]) for each in settings.remarks] == [
        (24, "router.route.topic", "route 2 gives another place to far, an output of type console, which has one"),
        (22, "router.route.from", 'route 2: from names "Person", which is none of the tables'),
        (22, "router.route.from", 'route 2: from names "!hr.*", which is none of the tables'),
    ]


def test_a_pattern_of_a_route_may_find_what_patterns_of_tables_find(tmp_path: Path) -> None:
    route = '  route {\n from = ["hr.*", "sales.Orders", "hr.People"]\n to = ["default"]\n }\n'
    path = tmp_path / "f.hcl"
    path.write_text(FILE.replace("OUTPUTS", route).replace('"sales.Persons"', '"sales.*"'), encoding="utf-8")
    settings = from_document(read(path, {"BUS": BUS})).value
    assert settings is not None
    assert ['"hr.People"' in each.hint for each in settings.remarks] == [True]
