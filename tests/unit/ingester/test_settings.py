"""The `ingester` block: defaults, what is refused and on which line, and what holds for each table."""

from __future__ import annotations

import pickle
import subprocess
import sys
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import SecretStr, ValidationError

from common.config.bind import read
from common.names import TRANSACTIONS, Origin, TableName
from common.servicebus.settings import ServiceBusQueue
from ingester.blocks.locks import LocalLockSettings
from ingester.settings import IngesterSettings, TablesOverrides, from_document

ROOT = Path(__file__).parents[3]
DB = "Server=tcp:SQL01.corp,1433;Database=Shop;User Id=u;Password=p"
BUS = "Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=k"


def source(more: str = "", *, tables: str = '["Persons"]', queue: str = "", locks: str = 'type = "local"') -> str:
    """A small valid block; what a test adds begins on line 13."""
    return f"""ingester {{
  db_type = "sqlserver"
  db_connection_string = "{DB}"
  queue {{
    type = "servicebus"
    name = "ingest-queue"
    connection_string = "{BUS}"
{queue}  }}
  locks {{
    {locks}
  }}
  tables = {tables}
{more}
}}
"""


def load(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> IngesterSettings:
    path = tmp_path / "f.hcl"
    path.write_text(text, encoding="utf-8")
    bound = from_document(read(path, environ or {}))
    assert bound.problems == []
    assert bound.value is not None
    return bound.value


def complaints(tmp_path: Path, text: str, environ: dict[str, str] | None = None) -> list[tuple[int, str]]:
    path = tmp_path / "f.hcl"
    path.write_text(text, encoding="utf-8")
    return sorted({(problem.line, problem.text) for problem in from_document(read(path, environ or {})).problems})


def test_a_small_block_is_whole_through_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, source())
    assert settings.db.host == "SQL01.corp"
    assert settings.origin == Origin("sql01", "Shop")
    assert settings.queue.type == "azure_service_bus"
    assert settings.queue.ordering == "table"
    assert settings.queue.provision == "create"
    assert (settings.on_gap, settings.on_oversize, settings.decimals) == ("fail", "fail", "string")
    assert (settings.before_images, settings.page_rows, settings.query_mode) == (False, 2000, "direct")
    assert (settings.slice, settings.coalesce) == (timedelta(seconds=10), timedelta(milliseconds=100))
    (persons,) = settings.schedule
    assert persons.name == TableName("dbo", "Persons")
    assert (persons.poll_interval, persons.max_poll_interval) == (timedelta(seconds=5), timedelta(minutes=2))


def test_overrides_repeat_and_leave_to_the_defaults_what_they_do_not_say(tmp_path: Path) -> None:
    more = """
      poll_interval_defaults {
        poll_interval = "1s"
        max_poll_interval = "1m"
      }
      tables_overrides {
        overrides {
          table_name = "dbo.Persons"
          max_poll_interval = "10m"
        }
        overrides {
          table_name = "[sales].[Order Details]"
          poll_interval = "500ms"
        }
      }"""
    settings = load(tmp_path, source(more, tables='["Persons", "sales.Order Details", "C"]'))
    assert [
        (item.poll_interval.total_seconds(), item.max_poll_interval.total_seconds()) for item in settings.schedule
    ] == [
        (1, 600),
        (0.5, 60),
        (1, 60),
    ]


def test_names_may_be_set_outright(tmp_path: Path) -> None:
    settings = load(tmp_path, source('server_name = "Shop-SQL"\ndatabase = "Main"'))
    assert settings.origin == Origin("shop-sql", "Main")


def test_spark_takes_its_own_settings_as_text(tmp_path: Path) -> None:
    settings = load(
        tmp_path, source('spark {\nmaster = "local[2]"\nconf = { "spark.a" = 1, "spark.b" = true, "spark.c" = "x" }\n}')
    )
    assert settings.spark.master == "local[2]"
    assert settings.spark.conf == {"spark.a": "1", "spark.b": "true", "spark.c": "x"}


@pytest.mark.parametrize(
    ("more", "line", "words"),
    [
        ('on_gap = "stop"', 13, 'on_gap must be one of "fail", "skip"'),
        ('\nongap = "skip"', 14, 'unknown key "ongap" (did you mean "on_gap"?)'),
        ("monitor {\n}", 13, 'unknown block "monitor"'),
        ("health {\nport = 0\n}", 14, "ingester.health.port must be at least 1"),
        ("health {\nport = 65536\n}", 14, "must be at most 65535"),
        ('health {\nport = "8080"\n}', 14, "must be a whole number"),
        ('health {\nhost = ""\n}', 14, "must be an address of this machine"),
        ("health {\npath = 1\n}", 14, 'unknown key "path"'),
        ("health = 8080", 13, "is a block"),
        ("health {\n}\nhealth {\n}", 15, "given twice (first on line 13)"),
        ('page_rows = "10"', 13, "must be a whole number"),
        ("page_rows = 0", 13, "must be at least 1"),
        ("page_rows = true", 13, "must be a whole number"),
        ('before_images = "yes"', 13, "must be true or false"),
        ('query_mode = "functions"', 13, "query_mode"),
        ('slice = "0s"', 13, "must be more than zero"),
        ('slice = "999999h"', 13, "must be from 1ms to 1h"),
        ('coalesce = "-1s"', 13, "must not be negative"),
        ('coalesce = "2m"', 13, "must be from 0s to 1m"),
        ('poll_interval_defaults {\npoll_interval = "1us"\n}', 14, "must be from 1ms to 168h"),
        ('poll_interval_defaults {\nmax_poll_interval = "169h"\n}', 14, "must be from 1ms to 168h"),
        (
            'tables_overrides {\noverrides {\ntable_name = "Persons"\nmax_poll_interval = "999999h"\n}\n}',
            16,
            "must be from 1ms to 168h",
        ),
        ("slice = 10", 13, "must be a duration such as 500ms, 5s, 2m or 1h30m, in quotes"),
        ("database = 7", 13, "must be text in double quotes"),
        ('spark = "local"', 13, "is a block"),
        ("on_gap {\n}", 13, "is a setting"),
        ('spark {\nconf = "x"\n}', 14, "must be a map"),
        ('spark {\nconf = { "spark.a" = ["x"] }\n}', 14, "must be text"),
        ('spark {\nconf = {\n"driver.memory" = "2g"\n}\n}', 15, "conf.driver.memory is no setting of Spark's"),
        ('spark {\nconf = {\n"spark.driver.memory" = 2\n}\n}', 15, "spark.driver.memory is no size of 450 MB"),
        ('spark {\nconf = {\n"spark.driver.memory" = "449m"\n}\n}', 15, "is no size of 450 MB or more"),
        ('spark {\nconf = {\n"spark.executor.memory" = "2gigs"\n}\n}', 15, "a whole number with its unit"),
        ('spark {\nconf = {\n"spark.dstream.results.port" = "x"\n}\n}', 15, "results.port is no port"),
        ('spark {\nconf = {\n"spark.driver.port" = 99999\n}\n}', 15, "spark.driver.port is no port"),
        ('spark {\nconf = {\n"spark.blockManager.port" = 80\n}\n}', 15, "write one from 1024 to 65535"),
        ('tables = ["B"]', 13, "given twice (first on line 12)"),
        ('poll_interval_defaults {\npoll_interval = "-5s"\n}', 14, "must be more than zero"),
        ('poll_interval_defaults {\npoll_interval = "3m"\n}', 13, "longer than its max_poll_interval"),
        (
            'tables_overrides {\noverrides {\ntable_name = "Person"\n}\n}',
            15,
            'not in tables (did you mean "dbo.Persons"?)',
        ),
        ('tables_overrides {\noverrides {\npoll_interval = "5s"\n}\n}', 14, 'key "table_name" is missing'),
        (
            'tables_overrides {\noverrides {\ntable_name = "Persons"\n}\noverrides {\ntable_name = "dbo.Persons"\n}\n}',
            18,
            "a second time",
        ),
        (
            'tables_overrides {\noverrides {\ntable_name = "Persons"\npoll_interval = "5m"\n}\n}',
            16,
            "makes poll_interval longer than max_poll_interval for its table (5m, 2m)",
        ),
        ("tables_overrides {\noverrides = []\n}", 14, "is a block"),
    ],
)
def test_a_wrong_setting_is_told_with_its_line(tmp_path: Path, more: str, line: int, words: str) -> None:
    told = complaints(tmp_path, source(more))
    assert [at for at, _ in told] == [line]
    assert words in told[0][1]


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ("[]", "at least one table"),
        ('"Persons"', "must be a list"),
        ('["Persons", "Persons"]', "would share a topic"),
        ('["Persons", "dbo.PERSONS"]', "would share a topic"),
        ('["Persons", "a.b.c"]', 'ingester.tables has "a.b.c", which has more than two parts'),
        ("[7]", "must be text"),
        ('["!"]', "takes away no table"),
        ('["!sales.*", "!Persons"]', "nothing left to send"),
        ('["Persons", "!persons"]', "nothing left to send"),
        ('["a.b.*"]', "more than two parts"),
        ('["sales.*", "Persons", "persons"]', "would share a topic"),
    ],
)
def test_tables_are_a_list_of_different_names(tmp_path: Path, tables: str, words: str) -> None:
    told = complaints(tmp_path, source(tables=tables))
    assert [at for at, _ in told] == [12]
    assert words in told[0][1]


def test_each_line_of_a_long_list_of_tables_is_told_apart(tmp_path: Path) -> None:
    assert [line for line, _ in complaints(tmp_path, source(tables='[\n"A",\n"a.b.c",\n"a"\n]'))] == [14, 15]


def test_an_entry_from_the_environment_is_not_shown(tmp_path: Path) -> None:
    [(_, text)] = complaints(tmp_path, source(tables='["{{ env("T") }}"]'), {"T": "hunter2.b.c"})
    assert "has an entry that has more than two parts" in text
    assert "hunter2" not in text


def override(name: str) -> str:
    return f'overrides {{\ntable_name = "{name}"\n}}\n'


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (["sales.AuditLog"], "which !sales.Audit* takes out of tables"),
        (["hr.Orders"], "which is not in tables"),
        (["sales.*"], "must name one table"),
        (["!sales.Orders"], "must name one table"),
        (["sales.Orders", "SALES.orders"], "a second time"),
        (["Persons", "sales.Orders", "Sales.Orders"], "a second time"),
    ],
)
def test_an_override_names_a_table_that_the_selection_may_find(tmp_path: Path, names: list[str], words: str) -> None:
    more = f"tables_overrides {{\n{''.join(map(override, names))}}}"
    told = complaints(tmp_path, source(more, tables='["Persons", "sales.*", "!sales.Audit*"]'))
    assert [words in text for _, text in told] == [True]


def test_patterns_stand_beside_the_exact_names(tmp_path: Path) -> None:
    more = f"tables_overrides {{\n{override('sales.Orders')}}}"
    settings = load(tmp_path, source(more, tables='["sales.*", "Persons", "!sales.Audit*"]'))
    assert settings.tables == (TableName("dbo", "Persons"),)
    assert [each.name for each in settings.schedule] == [TableName("dbo", "Persons")]
    for same in (settings, pickle.loads(pickle.dumps(settings)), IngesterSettings(**dict(settings))):
        assert same.selection.wanted == "sales.*, not sales.Audit*"
        assert same.selection.names == same.tables
    assert not settings.model_copy(update={"tables": settings.tables[:]}).selection.patterns


def test_a_required_key_that_is_missing_is_told_at_its_block(tmp_path: Path) -> None:
    assert complaints(tmp_path, "\ningester {\n  queue {\n  }\n}\n") == [
        (2, 'ingester: block "locks" is missing'),
        (2, 'ingester: key "db_connection_string" is missing'),
        (2, 'ingester: key "db_type" is missing'),
        (2, 'ingester: key "tables" is missing'),
        (3, "ingester.queue needs connection_string (a key) or namespace (an identity)"),
        (3, 'ingester.queue: key "name" is missing'),
    ]


def test_no_ingester_block_at_all(tmp_path: Path) -> None:
    assert complaints(tmp_path, "") == [(1, 'block "ingester" is missing')]


BLOB = 'type = "azure_blob"\nconnection_string = "UseDevelopmentStorage=true"\n'


@pytest.mark.parametrize(
    ("locks", "words"),
    [
        ('type = "azure_blob"', "needs connection_string or account_url"),
        ('type = "zookeeper"', 'must be one of "azure_blob", "sqlserver", "local"'),
        (f'{BLOB}container_name = "My_Locks"', "lower-case"),
        ('type = "azure_blob"\naccount_url = "http://a.blob.core.windows.net"', "must be the blob endpoint's address"),
        (
            'type = "azure_blob"\nconnection_string = "AccountName=a;AccountKey=k"\naccount_url = "https://a.b"',
            "has both",
        ),
        (
            'type = "azure_blob"\nconnection_string = "Endpoint=sb://x"',
            "is not a storage account's connection string: it",
        ),
        ('type = "azure_blob"\nconnection_string = "hunter2"', "is not a storage account's connection string: it"),
        (
            'type = "azure_blob"\nconnection_string = "BlobEndpoint=http:/127.0.0.1:10000/a;AccountKey=k"',
            "does not have the address of a storage account: it",
        ),
        (
            'type = "azure_blob"\nconnection_string = "AccountName=a;AccountKey=k;EndpointSuffix=core.w[ndows.net"',
            "does not have the address of a storage account: it",
        ),
        ('type = "azure_blob"\nconnection_string = "AccountName=a"', "has no AccountKey and no SharedAccessSignature"),
        (f'{BLOB}lease = "14s"', "15s to 60s"),
        (f'{BLOB}lease = "61s"', "15s to 60s"),
        (f'{BLOB}lease = "20500ms"', "15s to 60s"),
    ],
)
def test_locks_are_of_a_known_kind_and_reachable(tmp_path: Path, locks: str, words: str) -> None:
    ((_, text),) = complaints(tmp_path, source(locks=locks))
    assert words in text


@pytest.mark.parametrize("address", ["a.blob.core.windows.net", "127.0.0.1:10000/devstoreaccount1"])
def test_a_storage_account_may_be_given_without_a_scheme(tmp_path: Path, address: str) -> None:
    string = f"BlobEndpoint={address};SharedAccessSignature=sv=1&sig=x"
    settings = load(tmp_path, source(locks=f'type = "azure_blob"\nconnection_string = "{string}"'))
    assert settings.locks.type == "azure_blob"


@pytest.mark.parametrize("kind", ["azure_blob", "sqlserver", "local"])
def test_every_kind_of_lock_loads(tmp_path: Path, kind: str) -> None:
    settings = load(tmp_path, source(locks=f'type = "{kind}"\nconnection_string = "UseDevelopmentStorage=true"'))
    assert settings.locks.type == kind


@pytest.mark.parametrize("kind", ["sqlserver", "local"])
def test_a_setting_of_another_kind_of_lock_has_no_effect_and_is_remembered(tmp_path: Path, kind: str) -> None:
    [remark] = load(tmp_path, source(locks=f'type = "{kind}"\nlease = "30s"')).remarks
    assert (remark.line, remark.setting) == (11, "ingester.locks.lease")
    assert remark.hint.startswith(f'it is a setting of type "azure_blob", and the type here is "{kind}"')


def test_locks_without_a_kind_are_told_so(tmp_path: Path) -> None:
    told = complaints(tmp_path, source(locks='lease = "30s"'))
    assert told == [(9, 'ingester.locks: key "type" is missing')]


@pytest.mark.parametrize(
    ("queue", "words"),
    [
        ('ordering = "session"\n', 'must be one of "table", "key", "none"'),
        ('management_endpoint = "localhost:5300"\n', "http:// or https://"),
        ('management_endpoint = "http://ns.servicebus.windows.net"\n', "must be https://"),
        ('management_endpoint = "http://localhost:5300/api"\n', "must end after host and port"),
        ('proxy = "http://proxy:3128"\n', 'needs transport = "websocket"'),
        ('proxy = "proxy:3128"\ntransport = "websocket"\n', "must be http://HOST:PORT"),
        ('transport = "udp"\n', "amqp"),
        ("key_buckets = 0\n", "at least 1"),
        ('provision = "yes"\n', 'must be one of "create", "verify", "none"'),
        ("pack = 0\n", 'a whole number from 1 to 500, or "max"'),
        ("pack = 501\n", 'a whole number from 1 to 500, or "max"'),
        ("pack = true\n", 'a whole number from 1 to 500, or "max"'),
        ('pack = "most"\n', 'a whole number from 1 to 500, or "max"'),
    ],
)
def test_the_queue_is_checked(tmp_path: Path, queue: str, words: str) -> None:
    ((line, text),) = complaints(tmp_path, source(queue=queue))
    assert line == 8
    assert words in text


@pytest.mark.parametrize(("queue", "most"), [("", 1), ("pack = 1\n", 1), ("pack = 40\n", 40), ('pack = "max"\n', 500)])
def test_changes_go_alone_unless_packs_are_asked_for(tmp_path: Path, queue: str, most: int) -> None:
    assert load(tmp_path, source(queue=queue)).queue.most_packed == most


NS = "NAME.servicebus.windows.net"


def with_namespace(namespace: str, more: str = "") -> str:
    return source(queue=more).replace(f'connection_string = "{BUS}"', f"namespace = {namespace}")


def test_a_namespace_stands_for_a_connection_string(tmp_path: Path) -> None:
    queue = load(tmp_path, with_namespace(f'"{NS}"')).queue
    assert isinstance(queue, ServiceBusQueue)
    assert (queue.connection_string, queue.where) == (None, NS.lower())


@pytest.mark.parametrize("text", ["NAME", f"sb://{NS}", f"{NS}/", f"{NS}:5671", f"{NS};", "", " ", "-a.b", "a..b"])
def test_a_namespace_is_a_whole_host_name_and_nothing_else(tmp_path: Path, text: str) -> None:
    told = complaints(tmp_path, with_namespace(f'"{text}"'))
    assert told == [
        (7, f"ingester.queue.namespace must be the namespace's host name and nothing else: {NS}"),
    ]


def test_key_and_identity_exclude_each_other_and_a_token_does_not_travel_in_the_clear(tmp_path: Path) -> None:
    assert complaints(tmp_path, source(queue=f'namespace = "{NS}"\n')) == [
        (8, "ingester.queue.namespace is given as well as connection_string; give only one of them")
    ]
    assert complaints(tmp_path, with_namespace("7", 'management_endpoint = "http://localhost:5300"\n')) == [
        (7, "ingester.queue.namespace must be text in double quotes"),
        (
            8,
            "ingester.queue.management_endpoint must be https:// with a namespace: a token must not travel in clear text",
        ),
    ]
    load(tmp_path, with_namespace(f'"{NS}"', 'management_endpoint = "https://proxy"\n'))


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, r"needs connection_string \(a key\) or namespace"),
        ({"connection_string": BUS, "namespace": NS}, "namespace is given as well as connection_string"),
        ({"namespace": NS, "management_endpoint": "http://x"}, "management_endpoint must be https://"),
    ],
)
def test_a_queue_made_in_code_has_one_way_in(given: dict[str, str], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ServiceBusQueue.model_validate({"name": "q"} | given)


def test_a_connection_string_for_something_else_is_found_before_the_first_connect(tmp_path: Path) -> None:
    told = complaints(tmp_path, source().replace(BUS, "DefaultEndpointsProtocol=https;AccountKey=hunter2"))
    assert told == [
        (7, "ingester.queue.connection_string is not a connection string of a namespace: it has no Endpoint=sb://...")
    ]


@pytest.mark.parametrize(
    ("string", "words"),
    [
        ("Endpoint=sb://x;SharedAccessKeyName=n", "has no SharedAccessKey; it should read Endpoint=sb://NAME"),
        (f"{BUS};Key=v", "has a part that is none of Endpoint, SharedAccessKeyName"),
        (BUS.replace("//x", "//x:5672"), "has port 5672 in its Endpoint"),
        (f"{BUS};EntityPath=other", "is for other alone (EntityPath), and the queue is ingest-queue: use a connection"),
    ],
)
def test_a_connection_string_that_cannot_serve_is_told_with_its_line(tmp_path: Path, string: str, words: str) -> None:
    ((line, text),) = complaints(tmp_path, source().replace(BUS, string))
    assert line == 7
    assert text.startswith(f"ingester.queue.connection_string {words}")


def test_a_connection_string_of_the_queue_alone_serves(tmp_path: Path) -> None:
    load(tmp_path, source().replace(BUS, f"{BUS};EntityPath=Ingest-Queue"))


def test_an_address_that_asks_for_integrated_login_is_refused(tmp_path: Path) -> None:
    told = complaints(tmp_path, source().replace(DB, "server=localhost;database=testdb;trusted_connection=true"))
    assert [line for line, _ in told] == [3]
    assert "integrated login" in told[0][1]


def made(**changes: object) -> IngesterSettings:
    queue = ServiceBusQueue(name="q", connection_string=SecretStr(BUS))
    usual: dict[str, object] = {"db_type": "sqlserver", "db_connection_string": DB, "queue": queue}
    usual |= {"locks": LocalLockSettings(type="local"), "tables": ("Persons",)}
    return IngesterSettings.model_validate(usual | changes)


def test_settings_can_be_made_in_code_and_are_frozen() -> None:
    settings = made(slice=timedelta(seconds=1))
    assert settings.slice == timedelta(seconds=1)
    with pytest.raises(ValidationError):
        settings.page_rows = 1


def test_settings_travel_to_sparks_workers_whole_and_without_the_parsers() -> None:
    settings = made()
    assert pickle.loads(pickle.dumps(settings)) == settings
    code = "import sys, ingester.settings; sys.exit(' '.join({'hcl2', 'jinja2', 'lark'} & set(sys.modules)) or 0)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize(
    "changes",
    [
        {"tables": ("Persons", "persons")},
        {"tables_overrides": TablesOverrides.model_validate({"overrides": ({"table_name": "Other"},)})},
        {
            "tables_overrides": TablesOverrides.model_validate(
                {"overrides": ({"table_name": "Persons", "poll_interval": "5m"},)}
            )
        },
    ],
)
def test_settings_made_in_code_are_checked_as_a_file_is(changes: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        made(**changes)


def test_the_port_of_health_is_opened_only_where_it_is_asked_for(tmp_path: Path) -> None:
    """Without the block there is none; an empty one means the defaults."""
    assert load(tmp_path, source("")).health is None
    asked = load(tmp_path, source("health {\n}")).health
    assert asked is not None
    assert (asked.port, asked.host) == (8080, "0.0.0.0")


@pytest.mark.parametrize(
    "master",
    [
        "local",
        "local[8]",
        "local[*]",
        "local[2,4]",
        "spark://m:7077",
        "spark://a:7077,b:7077",
        "k8s://https://kubernetes.default.svc:443",
        "k8s://api.example.com",
        "yarn",
    ],
)
def test_a_spark_master_that_spark_knows_is_taken(tmp_path: Path, master: str) -> None:
    assert load(tmp_path, source(f'  spark {{\n    master = "{master}"\n  }}')).spark.master == master


@pytest.mark.parametrize("master", ["lokal", "local[0]", "local[", "spark://m", "k8s://", "mesos://m:5050", "yarn://m"])
def test_a_spark_master_that_spark_does_not_know_is_refused_on_its_line(tmp_path: Path, master: str) -> None:
    [(line, text)] = complaints(tmp_path, source(f'  spark {{\n    master = "{master}"\n  }}'))
    assert line == 14
    assert "spark://HOST:7077" in text


@pytest.mark.parametrize("slots", ["1025", "99999", "9" * 5000])
def test_more_slots_than_a_machine_has_threads_for_are_refused(tmp_path: Path, slots: str) -> None:
    """Spark began, took all threads of the machine, and failed a minute later."""
    [(line, text)] = complaints(tmp_path, source(f'  spark {{\n    master = "local[{slots}]"\n  }}'))
    assert (line, "has more than 1024 slots" in text) == (14, True)


def test_transactions_are_a_stream_beside_the_tables(tmp_path: Path) -> None:
    assert load(tmp_path, source()).streams == (TableName("dbo", "Persons"),)
    settings = load(tmp_path, source("transactions = true"))
    assert settings.streams == (TableName("dbo", "Persons"), TRANSACTIONS)
    assert [table.name for table in settings.schedule] == [TableName("dbo", "Persons")]


_COUNTS = "leaves changes out, and a consumer would wait for them: transactions = true counts every change; remove one of the two"


@pytest.mark.parametrize(
    ("more", "told"),
    [
        (
            'query_mode = "function"',
            'query_mode: is "function", which cannot count: transactions = true needs query_mode = "direct"',
        ),
        ('shape {\n skip_operations = ["Delete"]\n}', f"shape.skip_operations: {_COUNTS}"),
        ("shape {\n skip_unchanged = true\n}", f"shape.skip_unchanged: {_COUNTS}"),
        (
            'tables_overrides {\n overrides {\n table_name = "Persons"\n filter = "data.ID > 1"\n }\n}',
            f"tables_overrides.overrides[0].filter: {_COUNTS}",
        ),
    ],
    ids=["function", "operations", "unchanged", "filter"],
)
def test_what_makes_the_counts_of_transactions_wrong_is_refused(tmp_path: Path, more: str, told: str) -> None:
    assert load(tmp_path, source(more)).transactions is False
    [(line, text)] = complaints(tmp_path, source(f"{more}\ntransactions = true"))
    assert line > 1
    assert told.split(": ", 1)[1] in text


def test_a_table_cannot_have_the_name_of_the_transactions(tmp_path: Path) -> None:
    [(_, text)] = complaints(tmp_path, source("transactions = true", tables='["Persons", "CDC.Transactions"]'))
    assert "cdc.transactions, which is the name of the events" in text


def test_settings_made_in_code_refuse_it_too(tmp_path: Path) -> None:
    good = load(tmp_path, source("transactions = true"))
    with pytest.raises(ValidationError, match="cannot count"):
        IngesterSettings.model_validate({**dict(good), "query_mode": "function"})
