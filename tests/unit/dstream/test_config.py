"""The file that users have, the example they copy, one file with every fault, and secrets that never show."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from common.errors import ConfigurationError
from common.servicebus.management import management_address
from common.servicebus.namespace import ServiceBus
from common.servicebus.settings import ServiceBusSettings
from dstream.config import judge, load_both, load_ingester, load_router, load_server, one_port_for_both
from ingester.blocks.locks import AzureBlobLockSettings

ROOT = Path(__file__).parents[3]
GOLDEN = ROOT / "tests" / "golden" / "config"
SECRET = "hunter2-hunter2"
BUS = f"Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey={SECRET}"
ENVIRON = {
    "DSTREAM_DB_CONNECTION_STRING": f"Server=tcp:SQL01.corp,1433;Database=TestDB;User Id=u;Password={SECRET}",
    "DSTREAM_INGEST_CONNECTION_STRING": BUS,
    "DSTREAM_BLOB_CONNECTION_STRING": f"DefaultEndpointsProtocol=https;AccountName=a;AccountKey={SECRET}",
    "DSTREAM_PUBLISHER_CONNECTION_STRING": BUS,
}
Loader = Callable[[Path, Mapping[str, str]], Any]
LOADERS: list[Loader] = [load_ingester, load_router, load_both]


def problems(loader: Loader, path: Path, environ: Mapping[str, str]) -> list[str]:
    with pytest.raises(ConfigurationError) as raised:
        loader(path, environ)
    return [problem.replace(f"{path.parent}/", "") for problem in raised.value.problems]


def test_the_file_that_existing_users_have_loads_as_it_stands() -> None:
    ingester, router = load_both(GOLDEN / "existing.hcl", ENVIRON)
    assert isinstance(ingester.locks, AzureBlobLockSettings)
    assert (ingester.queue.name, ingester.locks.type, ingester.locks.container_name) == (
        "ingest-queue",
        "azure_blob",
        "locks",
    )
    (persons,) = ingester.schedule
    assert (persons.poll_interval.total_seconds(), persons.max_poll_interval.total_seconds()) == (5, 600)
    assert list(router.topics) == ["sql01.testdb.persons.events"]


def test_it_loads_alike_without_backslashes_with_calls_as_router_and_on_fewer_lines(tmp_path: Path) -> None:
    text = (GOLDEN / "existing.hcl").read_text(encoding="utf-8")
    expected = load_both(GOLDEN / "existing.hcl", ENVIRON)
    plain = text.replace('\\"', '"')
    called = plain.replace('env "', 'env("').replace('" }}', '") }}')
    one_line = plain.replace('        poll_interval = "5s"\n        max', '        poll_interval = "5s"  max')
    for number, other in enumerate((plain, called, text.replace("publisher {", "router {"), one_line)):
        assert other != text
        path = tmp_path / f"{number}.hcl"
        path.write_text(other, encoding="utf-8")
        assert load_both(path, ENVIRON) == expected


@pytest.mark.parametrize(
    ("loader", "lines"), [(load_ingester, [3, 11, 15]), (load_router, [3, 30]), (load_both, [3, 11, 15, 30])]
)
def test_each_command_wants_its_own_variables_alone(loader: Loader, lines: list[int]) -> None:
    told = problems(loader, GOLDEN / "existing.hcl", {})
    assert sorted({int(problem.split(":")[1]) for problem in told}) == lines
    assert all("DSTREAM_" in problem and "is not set" in problem for problem in told)


def test_a_variable_that_two_settings_need_is_reported_once_with_both(tmp_path: Path) -> None:
    told = problems(
        load_router, GOLDEN / "existing.hcl", {"DSTREAM_DB_CONNECTION_STRING": ENVIRON["DSTREAM_DB_CONNECTION_STRING"]}
    )
    (line,) = told
    assert "publisher.source.connection_string: environment variable DSTREAM_PUBLISHER_CONNECTION_STRING" in line
    assert line.endswith("(needed by publisher.output.connection_string on line 34 too)")


def test_an_unset_address_of_the_database_is_one_cause_and_one_line(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    text = (ROOT / "dstream.hcl").read_text(encoding="utf-8")
    path.write_text(re.sub("(db_connection_string *= ).*", r'\1"{{ env("NOT_SET") }}"', text), encoding="utf-8")
    [said] = problems(load_both, path, {})
    assert said.endswith("ingester.db_connection_string: environment variable NOT_SET is not set")
    [said] = problems(load_router, path, {})
    assert said.endswith("topic names need it: set it, or ingester.server_name and ingester.database")
    [note] = judge(path.read_text(encoding="utf-8"), path, {})
    assert note.startswith("the variable NOT_SET is not set in this process")


def test_the_ingester_starts_without_the_routers_variable_and_the_router_without_the_ingesters() -> None:
    publisher = "DSTREAM_PUBLISHER_CONNECTION_STRING"
    assert load_ingester(GOLDEN / "existing.hcl", {key: value for key, value in ENVIRON.items() if key != publisher})
    needed = {publisher, "DSTREAM_DB_CONNECTION_STRING"}
    assert load_router(GOLDEN / "existing.hcl", {key: ENVIRON[key] for key in needed})


def test_the_example_loads_for_the_local_emulators_without_any_variable() -> None:
    ingester, router = load_both(ROOT / "dstream.hcl", {})
    assert ingester.db.host == "localhost"
    ports = [stage.health.port for stage in (ingester, router) if stage.health is not None]
    assert ports == [8080, 8081]
    for bus in (ingester.queue, router.source, router.output):
        assert isinstance(bus, ServiceBusSettings)
        assert management_address(ServiceBus.of(bus).address, bus.management_endpoint) == ("http", "localhost:5300")


def test_the_example_sends_nothing_in_the_clear_once_its_connection_strings_are_set() -> None:
    string = "Endpoint=sb://ns.servicebus.windows.net/;SharedAccessKeyName=p;SharedAccessKey=k"
    environ = {f"DSTREAM_{stage}_CONNECTION_STRING": string for stage in ("INGEST", "ROUTER")}
    ingester, router = load_both(ROOT / "dstream.hcl", environ)
    for bus in (ingester.queue, router.source, router.output):
        assert isinstance(bus, ServiceBusSettings)
        address = ServiceBus.of(bus).address
        assert management_address(address, bus.management_endpoint) == ("https", "ns.servicebus.windows.net")


def test_every_fault_of_a_file_is_told_at_once_in_the_order_of_its_lines() -> None:
    expected = (GOLDEN / "broken.txt").read_text(encoding="utf-8").splitlines()
    assert problems(load_both, GOLDEN / "broken.hcl", {}) == expected


@pytest.mark.parametrize("loader", [load_ingester, load_router])
def test_a_typo_in_the_other_stages_block_is_told_too(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    text = (GOLDEN / "existing.hcl").read_text(encoding="utf-8")
    path.write_text(text.replace("locks {", "lock {").replace("output {", "ouput {"), encoding="utf-8")
    told = problems(loader, path, ENVIRON)
    assert any('unknown block "lock" (did you mean "locks"?)' in problem for problem in told)
    assert any('unknown block "ouput" (did you mean "output"?)' in problem for problem in told)


def test_a_file_of_authorities_that_cannot_be_used_is_told_with_its_line_to_the_stage_that_needs_it(
    tmp_path: Path,
) -> None:
    path, authorities = tmp_path / "f.hcl", tmp_path / "ca.pem"
    text = (GOLDEN / "existing.hcl").read_text(encoding="utf-8")
    queue, source = (text.replace(block, f'{block}\nca_file = "{authorities}"') for block in ("queue {", "source {"))
    for wrong, needing, other, told in (
        (queue, load_ingester, load_router, "f.hcl:9: ingester.queue.ca_file"),
        (source, load_router, load_ingester, "f.hcl:29: publisher.source.ca_file"),
    ):
        path.write_text(wrong, encoding="utf-8")
        for loader in (needing, load_both):
            authorities.unlink(missing_ok=True)
            (problem,) = problems(loader, path, ENVIRON)
            assert problem.startswith(told)
            assert "cannot be used: No such file or directory; name a PEM file" in problem
            authorities.write_text("no certificate")
            (problem,) = problems(loader, path, ENVIRON)
            assert "cannot be used: it holds no PEM certificate; name a PEM file" in problem
        assert other(path, ENVIRON)


def test_a_certificate_of_sql_server_that_cannot_be_used_is_told_with_its_line() -> None:
    string = f"Server=sql;Database=d;User Id=u;Password={SECRET};certificate=/nope.pem"
    environ = ENVIRON | {"DSTREAM_DB_CONNECTION_STRING": string}
    cause = "certificate=/nope.pem, which cannot be used: No such file or directory; name a PEM file"
    for loader in (load_ingester, load_both):
        assert problems(loader, GOLDEN / "existing.hcl", environ) == [
            f"existing.hcl:3: ingester.db_connection_string has {cause}"
        ]
    assert load_router(GOLDEN / "existing.hcl", environ)
    unused = {"DSTREAM_DB_CONNECTION_STRING": f"{string};encrypt=optional"}
    assert load_ingester(GOLDEN / "existing.hcl", ENVIRON | unused)


def with_health(tmp_path: Path, ingester: str, router: str) -> Path:
    text = re.sub(r"\n +health \{[^}]*\}", "", (ROOT / "dstream.hcl").read_text(encoding="utf-8"))
    for stage, block in (("ingester", ingester), ("router", router)):
        text = text.replace(f"{stage} {{\n", f"{stage} {{\n{block}\n", 1)
    path = tmp_path / "dstream.hcl"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("ingester", "router"),
    [
        ("health { }", "health { }"),
        ("health { port = 9000 }", 'health {\n  port = 9000\n  host = "127.0.0.1"\n}'),
        ('health { host = "::" }', 'health { host = "127.0.0.1" }'),
    ],
)
def test_one_port_for_both_stages_is_refused_to_the_server_alone_with_both_lines(
    ingester: str, router: str, tmp_path: Path
) -> None:
    """As services of their own, each in a pod, both stages may have the same port."""
    path = with_health(tmp_path, ingester, router)
    lines = path.read_text(encoding="utf-8").splitlines()
    [first, second] = [
        number for number, line in enumerate(lines, 1) if "port = " in line or line.startswith("health { ")
    ][:2]
    [problem] = problems(load_server, path, {})
    port = 9000 if "port" in ingester else 8080
    assert problem.startswith(
        f"dstream.hcl:{second}: router.health.port (line {second}) and ingester.health.port (line {first}) are both {port}"
    )
    for loader in LOADERS:
        loader(path, {})
    said = one_port_for_both(*load_both(path, {}))
    assert said == re.sub(r" \(line [0-9]+\)", "", problem.partition(": ")[2])


@pytest.mark.parametrize(
    ("ingester", "router"),
    [
        ("health { port = 9000 }", "health { }"),
        ("health { }", ""),
        ('health { host = "10.0.0.1" }', 'health { host = "127.0.0.1" }'),
        ('health { host = "::1" }', "health { }"),
    ],
)
def test_ports_that_do_not_meet_are_no_fault(ingester: str, router: str, tmp_path: Path) -> None:
    path = with_health(tmp_path, ingester, router)
    assert one_port_for_both(*load_server(path, {})) is None


def test_router_and_publisher_at_once_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.hcl"
    path.write_text((GOLDEN / "existing.hcl").read_text(encoding="utf-8") + "router {\n}\n", encoding="utf-8")
    for loader in LOADERS:
        assert 'f.hcl:37: "router" is the same block as "publisher" (first on line 27)' in problems(
            loader, path, ENVIRON
        )


def _inside(value: Any) -> list[Any]:
    if isinstance(value, BaseModel):
        return [value, *(inner for name in type(value).model_fields for inner in _inside(getattr(value, name)))]
    if isinstance(value, tuple):
        return [inner for item in value for inner in _inside(item)]
    return [value]


def test_no_settings_show_a_secret_in_any_form() -> None:
    parts = _inside(load_both(GOLDEN / "existing.hcl", ENVIRON))
    assert len(parts) > 30
    for part in parts:
        for shown in (repr(part), str(part), f"{part}"):
            assert SECRET not in shown


@pytest.mark.parametrize("variable", sorted(ENVIRON))
@pytest.mark.parametrize(
    "spoilt",
    [
        f";{SECRET}",
        SECRET,
        f"Server='{SECRET}",
        f"sqlserver://{SECRET}#@h",
        f"a=b;{SECRET}=x",
        f'"{SECRET}',
        f"${{{SECRET}}}",
    ],
)
def test_no_complaint_shows_a_secret(variable: str, spoilt: str, tmp_path: Path) -> None:
    """The value is wrong for every setting of the file in turn: wherever it stands, no message repeats it."""
    text = (GOLDEN / "existing.hcl").read_text(encoding="utf-8").replace("locks {", "lock {")
    for literal in ('"sqlserver"', '"5s"', '"servicebus"', '"ingest-queue"', '"azure_blob"', '["Persons"]', '"2m"'):
        path = tmp_path / "f.hcl"
        path.write_text(text.replace(literal, f'"{{{{ env("{variable}") }}}}"'), encoding="utf-8")
        assert SECRET not in "\n".join(problems(load_both, path, ENVIRON | {variable: spoilt}))


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_any_password_reaches_the_settings_as_it_is(password: str) -> None:
    address = f"Server=h;Database=d;UID=u;PWD='{password.replace(chr(39), chr(39) * 2)}'"
    settings = load_ingester(GOLDEN / "existing.hcl", ENVIRON | {"DSTREAM_DB_CONNECTION_STRING": address})
    assert settings.db.password.get_secret_value() == password
