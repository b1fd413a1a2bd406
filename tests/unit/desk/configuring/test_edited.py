"""A configuration edited through the desk's port: what the file has then, what is refused, and what a person sees of it."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from common.errors import ConfigurationError, DStreamError, PermanentError
from common.names import TableName
from desk.configuring.allowed import Allowed
from desk.configuring.edited import EditedConfiguration
from desk.configuring.hcl.document import Inner, Setting, plain_of
from desk.configuring.hcl.literals import Env
from desk.configuring.places.file import FilePlace
from desk.configuring.revisions import KEPT, Revisions
from desk.desk import Actor, Conflict, NotFound
from desk.documents.configuring import Edit, OutputOrder, Revision, SourceOrder
from dstream.config import judge
from router.outputs.registry import TYPES

ACTOR = Actor("ada@example.org", "http", "r1")

FILE = """\
# top
ingester {
\tdb_type = "sqlserver" // kind
\tdb_connection_string = "sqlserver://sa:Hidden-pw-1@localhost:1433?database=shop&encrypt=disable" # never shown
\tqueue {
\t\tname = "ingest-queue"
\t\tconnection_string = "{{ env("BUS", "Endpoint=sb://localhost;SharedAccessKeyName=n;SharedAccessKey=hidden-key-2;UseDevelopmentEmulator=true;") }}"
\t}
\tlocks { type = "local" }
\ttables = [
\t\t"Persons", # people
\t\t"sales.*",   /* all of it */
\t\t"!sales.Audit*"
\t]
\ttables_overrides {
\t\toverrides {
\t\t\ttable_name = "sales.Orders"
\t\t\tmask = {
\t\t\t\t"Last Name" = "hash:SHA-256:hidden-salt-3" # the salt
\t\t\t\tEmail       = "redact"
\t\t\t}
\t\t}
\t}
\t# password = "hidden-comment-4"
}

publisher {
\tsource { connection_string = {{ env("BUS") }} }
\toutput {
\t\tconnection_string = {{ env("BUS") }}
\t}
\toutput "hook" {
\t\ttype     = "webhook"
\t\turl      = "https://example.org/in"
\t\tusername = "u"
\t\tpassword = "hidden-word-5"
\t}
\troute {
\t\tfrom = ["Persons"]
\t\tto   = ["default", "hook"]
\t}
}
"""
HIDDEN = ("Hidden-pw-1", "hidden-key-2", "hidden-salt-3", "hidden-comment-4", "hidden-word-5")
BUS = "Endpoint=sb://localhost;SharedAccessKeyName=n;SharedAccessKey=k;UseDevelopmentEmulator=true;"


class World:
    def __init__(self, folder: Path, text: str = FILE, environ: dict[str, str] | None = None) -> None:
        self.file = folder / "dstream.hcl"
        self.file.write_bytes(text.encode())
        self.state = folder / "state"
        self.environ = {"BUS": BUS} if environ is None else environ
        self.desk = self.console()

    def console(self) -> EditedConfiguration:
        """A process of its own, as far as that shows."""
        place = FilePlace(self.file)
        return EditedConfiguration(
            place,
            Revisions(self.state, place.name),
            judge=lambda text: judge(text, self.file, self.environ),
            matches=lambda text: [TableName("sales", "Orders"), TableName("sales", "AuditLog")],
            now=lambda: "2026-01-02T03:04:05Z",
        )

    @property
    def text(self) -> str:
        return self.file.read_bytes().decode()

    def add_source(self, name: str, settings: dict[str, Any] | None = None, *, dry_run: bool = False) -> Edit:
        order = SourceOrder(name=name, settings=settings or {}, dry_run=dry_run, reason="because")
        return self.desk.put_source(order, None, ACTOR, new=True)

    def change_source(self, name: str, settings: dict[str, Any]) -> Edit:
        return self.desk.put_source(SourceOrder(name=name, settings=settings, dry_run=False), None, ACTOR, new=False)

    def put_output(self, name: str, kind: str, *, new: bool, routes: Any = None, **settings: Any) -> Edit:
        order = OutputOrder(name=name, type=kind, settings=settings, routes=routes, dry_run=False)
        return self.desk.put_output(order, None, ACTOR, new=new)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_source_comes_behind_the_others_and_is_taken_back_to_the_octet(world: World) -> None:
    before = world.file.read_bytes()
    edit = world.add_source("hr.Staff", {"poll_interval": "1s", "snapshot": {"mode": "initial"}})
    assert (edit.applied, edit.warnings) == (True, [])
    assert '\t\t"!sales.Audit*",\n\t\t"hr.Staff"\n\t]\n' in world.text
    assert (
        '\t\toverrides {\n\t\t\ttable_name    = "hr.Staff"\n\t\t\tpoll_interval = "1s"\n'
        '\t\t\tsnapshot {\n\t\t\t\tmode = "initial"\n\t\t\t}\n\t\t}\n' in world.text
    )
    assert world.desk.configuration().revision == edit.revision
    assert world.desk.undo(edit.revision, ACTOR, dry_run=False).applied
    assert world.file.read_bytes() == before
    assert world.desk.undo(None, ACTOR, dry_run=False).revision == edit.revision, "an undo can be undone"
    told = [(each.what, each.by, each.reason) for each in world.desk.configuration().revisions]
    assert told[0] == ("add the source hr.Staff", "ada@example.org", None)
    assert told[1:] == [
        ("undo: add the source hr.Staff", "ada@example.org", None),
        ("add the source hr.Staff", "ada@example.org", "because"),
    ]


def test_a_dry_run_shows_the_difference_and_changes_nothing(world: World) -> None:
    before = world.file.read_bytes()
    edit = world.add_source("hr.Staff", dry_run=True)
    assert not edit.applied
    assert '+\t\t"hr.Staff"\n' in edit.difference
    assert "without a restart" in edit.taken_over
    assert world.file.read_bytes() == before
    assert not world.state.exists()
    assert world.add_source("hr.Staff").revision == edit.revision


def test_nothing_that_is_secret_is_shown(world: World) -> None:
    shown = world.desk.configuration().text
    assert not [each for each in HIDDEN if each in shown]
    assert '{{ env("BUS", "***") }}' in shown
    assert '= {{ env("BUS") }}' in shown
    assert '"Last Name" = "***" # the salt' in shown
    assert 'Email       = "redact"' in shown
    documents = [*world.desk.sources(), *world.desk.outputs()]
    assert not [each for each in HIDDEN if each in repr(documents)]
    assert world.desk.outputs()[1].settings == {"url": "https://example.org/***", "username": "u"}
    assert world.desk.outputs()[1].routes == [{"from": ["Persons"], "to": ["default", "hook"]}]
    world.change_source("sales.Orders", {"mask": None, "poll_interval": "2s"})
    edit = world.desk.undo(None, ACTOR, dry_run=True)
    assert not [each for each in HIDDEN if each in edit.difference]
    kept = "".join(each.read_text() for each in world.state.iterdir())
    assert not [each for each in HIDDEN if each in kept]


def test_comments_and_addresses_show_no_secret(tmp_path: Path) -> None:
    more = """\
# Authorization: Bearer hidden-comment-6
# the old token was hidden-comment-7, see the wiki
# https://x.example/hook?code=hidden-comment-8&sig=hidden-comment-9
/* Password hidden-comment-10 */
# amqp://user:hid@den/comment-11@broker.example/
"""
    text = FILE.replace("https://example.org/in", "https://hooks.example.org/services/T00/hidden-path-12") + more
    shown = World(tmp_path, text).desk.configuration().text
    for hidden in ("hidden-comment", "hidden-path", "den/comment"):
        assert hidden not in shown
    assert 'url      = "https://hooks.example.org/***"' in shown
    assert "/* Password*** */" in shown
    assert "# amqp://***@broker.example/" in shown


def test_what_comes_back_as_it_was_shown_stays_as_it_is(tmp_path: Path) -> None:
    hook = (
        'url      = "https://hooks.example.org/services/hidden-path-12"\n\t\ttopic    = "{{ env("TEAM") }}.{table}"\n'
    )
    world = World(
        tmp_path, FILE.replace('url      = "https://example.org/in"\n', hook + '\t\tca_file  = "{{ env("CA") }}"\n')
    )
    shown = world.desk.outputs()[1].settings
    assert shown == {
        "url": "https://hooks.example.org/***",
        "topic": '{{ env("TEAM") }}.{table}',
        "ca_file": {"env": "CA"},
        "username": "u",
    }
    order = OutputOrder(name="hook", type="webhook", settings=shown, dry_run=True)
    assert world.desk.put_output(order, None, ACTOR, new=False).difference == ""
    moved = OutputOrder(name="hook", type="webhook", settings={**shown, "ca_file": None}, dry_run=True)
    with pytest.raises(
        ConfigurationError, match=r"hook\.url must be given again, because ca_file may change who gets it"
    ):
        world.desk.put_output(moved, None, ACTOR, new=False)
    for url in ("https://other.example/***", "https://***@other.example/in"):
        moved = OutputOrder(name="hook", type="webhook", settings={"url": url}, dry_run=True)
        with pytest.raises(ConfigurationError, match=r"hook.url holds \*\*\*, which stands for what is not shown"):
            world.desk.put_output(moved, None, ACTOR, new=False)
    assert "***" not in world.text


def test_a_change_of_what_is_not_shown_is_seen(world: World) -> None:
    again = {"password": {"env": "DSTREAM_OUTPUT_WORD"}}
    settings = {"url": "https://example.org/hidden-path-13", **again}
    order = OutputOrder(name="hook", type="webhook", settings=settings, dry_run=True)
    difference = world.desk.put_output(order, None, ACTOR, new=False).difference
    line = '\t\turl      = "https://example.org/***"\n'
    assert f"-{line}" in difference
    assert f"+{line}" in difference
    settings = {"url": {"env": "DSTREAM_OUTPUT_URL"}, **again}
    order = OutputOrder(name="hook", type="webhook", settings=settings, dry_run=True)
    assert '"{{ env("DSTREAM_OUTPUT_URL") }}"\n' in world.desk.put_output(order, None, ACTOR, new=False).difference


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ('"https://h.example:8443"', '"https://h.example:8443"'),
        ('"https://h.example/"', '"https://h.example/"'),
        ('"https://h.example?code=hidden"', '"https://h.example?***"'),
        ('"https://hidden@h.example/{table}/hid den"', '"https://***@h.example/***"'),
        ('"https://h.example/\\u0041/\\"hidden"', '"https://h.example/***"'),
        ('"https://{{ env("H") }}/a/{{ env("P", "hidden") }}/b"', '"https://{{ env("H") }}/***"'),
        ('"{{ env("U", "https://h.example/hidden") }}"', '"{{ env("U", "https://h.example/***") }}"'),
        ('"{{ env(\\"U\\", \\"https://h.example/hidden\\") }}"', '"{{ env(\\"U\\", \\"https://h.example/***\\") }}"'),
        ("{{ env('U', 'https://h.example/hidden') }}", "{{ env('U', 'https://h.example/***') }}"),
        ('"{{ env("BASE") }}/T0/hidden"', '"{{ env("BASE") }}***"'),
        ("<<EOT\nhttps://h.example/hidden\nEOT", "<<EOT\nhttps://h.example/***\nEOT"),
    ],
)
def test_of_a_webhook_the_host_is_shown(tmp_path: Path, written: str, shown: str) -> None:
    """The file may be one that a stage refuses, and is shown all the same."""
    world = World(tmp_path, FILE.replace('"https://example.org/in"', written))
    assert f"url      = {shown}\n" in world.desk.configuration().text
    assert "hid" not in world.desk.outputs()[1].settings["url"]


def test_of_other_addresses_who_logs_in_and_the_query_are_masked(tmp_path: Path) -> None:
    more = '\toutput "search" {\n\t\ttype = "elasticsearch"\n\t\turls = ["https://hidden@one/a", "https://two/b?key=hidden"]\n\t}\n\troute {'
    world = World(tmp_path, FILE.replace("\troute {", more))
    assert 'urls = ["https://***@one/a", "https://two/b?***"]' in world.desk.configuration().text
    assert world.desk.outputs()[2].settings == {"urls": ["https://***@one/a", "https://two/b?***"]}


def test_what_held_a_secret_is_taken_back_by_the_same_process_only(world: World) -> None:
    before = world.text
    world.change_source("sales.Orders", {"mask": None})
    other = world.console()
    with pytest.raises(Conflict, match="it removed a value that is secret"):
        other.undo(None, ACTOR, dry_run=False)
    world.desk.undo(None, ACTOR, dry_run=False)
    assert world.text == before


def test_a_secret_is_given_by_its_variable(world: World) -> None:
    with pytest.raises(ConfigurationError, match=r'router.output.two.password is secret: give {"env": "NAME"}'):
        world.put_output("two", "webhook", new=True, url="https://x.example", username="u", password="opensesame")
    with pytest.raises(ConfigurationError, match=r"override of Persons.mask.A is secret"):
        world.change_source("Persons", {"mask": {"A": "hash:SHA-256:pepper"}})
    with pytest.raises(ConfigurationError, match="is secret"):
        world.put_output("two", "webhook", new=True, url="https://u:word@x.example")
    edit = world.put_output(
        "two",
        "webhook",
        new=True,
        url="https://x.example",
        username="u",
        password={"env": "DSTREAM_OUTPUT_PASSWORD"},
        headers={"X-Key": {"env": "DSTREAM_OUTPUT_KEY"}},
        routes=[{"from": ["sales.*"], "to": ["default", "two"]}],
    )
    assert 'password = "{{ env("DSTREAM_OUTPUT_PASSWORD") }}"' in world.text
    assert 'headers  = { X-Key = "{{ env("DSTREAM_OUTPUT_KEY") }}" }' in world.text
    assert [each for each in edit.warnings if "DSTREAM_OUTPUT_PASSWORD is not set in this process" in each]


def test_a_map_keeps_what_is_not_shown(world: World) -> None:
    """A person changes what the page shows, which is not the whole."""
    shown = next(each for each in world.desk.sources() if each.name == "sales.Orders").settings
    assert shown == {"mask": {"Email": "redact"}}
    world.change_source("sales.Orders", {"mask": {"Email": "truncate:3", "Phone": "redact"}})
    assert '"Last Name" = "hash:SHA-256:hidden-salt-3" # the salt' in world.text
    assert 'Email       = "truncate:3"' in world.text
    edit = world.change_source("sales.Orders", {"mask": {"Email": None}})
    assert "Email" not in world.text
    assert edit.applied


def test_the_whole_file_must_be_right(world: World) -> None:
    before = world.text
    with pytest.raises(ConfigurationError, match=r"dstream.hcl:\d+: .*poll_interval must be a duration"):
        world.add_source("hr.Staff", {"poll_interval": "soon"})
    with pytest.raises(ConfigurationError, match='unknown key "pol_interval"'):
        world.add_source("hr.Staff", {"pol_interval": "1s"})
    with pytest.raises(ConfigurationError, match="an override names one table"):
        world.add_source("hr.*", {"poll_interval": "1s"})
    with pytest.raises(ConfigurationError, match="must be one of"):
        world.put_output("x", "carrier pigeon", new=True)
    for name in ("x y", 'x" {}\noutput "y', "", "ž", "${x}"):
        with pytest.raises(ConfigurationError, match="name of an output"):
            world.put_output(name, "console", new=True)
    for key in ("a b", "a = 1\nb", "", '"'):
        with pytest.raises(ConfigurationError, match="no name of a setting"):
            world.change_source("Persons", {key: "x"})
    assert world.text == before


def test_names_are_those_of_tables(world: World) -> None:
    for name in ("persons", "[dbo].[Persons]", "sales.*", "!sales.Audit*", "sales.Orders"):
        with pytest.raises(Conflict, match="it is there already"):
            world.add_source(name)
    with pytest.raises(NotFound):
        world.change_source("hr.Staff", {"poll_interval": "1s"})
    world.change_source("sales.Items", {"poll_interval": "1s"})
    assert [each.name for each in world.desk.sources()][-1] == "sales.Items", "a pattern finds it"
    with pytest.raises(NotFound):
        world.desk.remove_source("hr.Staff", None, ACTOR, dry_run=True)
    with pytest.raises(ConfigurationError):
        world.add_source("a.b.c.d")
    assert [(each.name, each.kind, each.matches) for each in world.desk.sources()][:3] == [
        ("Persons", "table", ["dbo.Persons"]),
        ("sales.*", "pattern", ["sales.Orders"]),
        ("!sales.Audit*", "exclusion", []),
    ]


def test_removing_says_what_follows(world: World) -> None:
    edit = world.desk.remove_source("sales.Orders", None, ACTOR, dry_run=True)
    assert edit.warnings == [
        "Email of sales.Orders is sent from now on",
        "Last Name of sales.Orders is sent from now on",
    ]
    edit = world.desk.remove_source("sales.*", None, ACTOR, dry_run=True)
    assert edit.warnings[0].startswith("the override of sales.Orders is removed as well")
    world.add_source("sales.Items", {"poll_interval": "1s"})
    edit = world.desk.remove_source("sales.Items", None, ACTOR, dry_run=False)
    assert "sales.* still finds sales.Items, which keeps its override" in edit.warnings[0]
    world.desk.remove_source("Persons", None, ACTOR, dry_run=False)
    assert "tables = [\n\t\t # people\n" in world.text, "no comment is lost"
    with pytest.raises(ConfigurationError, match="tables"):
        world.desk.remove_source("sales.*", None, ACTOR, dry_run=True)


def test_an_undo_says_what_it_lets_out_and_whose_change_it_is(world: World) -> None:
    held = {"mask": {"Ssn": "redact", "Email": "truncate:3"}, "exclude_columns": ["Notes"], "filter": "data.Id > 7"}
    world.change_source("sales.Orders", held)
    edit = world.desk.undo(None, Actor("eve@example.org", "http", "r2"), dry_run=True)
    assert edit.warnings == [
        "this undoes a change of ada@example.org at 2026-01-02T03:04:05Z: change the source sales.Orders",
        "Email of sales.Orders is masked in another way from now on",
        "Notes of sales.Orders is sent from now on",
        "Ssn of sales.Orders is sent from now on",
        "rows of sales.Orders that its filter held back are sent from now on",
    ]
    world.desk.undo(None, ACTOR, dry_run=False)
    world.add_source("!hr.*")
    assert world.desk.undo(None, ACTOR, dry_run=True).warnings[1:] == [
        "the tables that !hr.* took away are sent from now on, if an entry finds them"
    ]
    world.change_source("sales.Items", {"columns": ["Email"], "mask": {"Email": "redact"}})
    edit = world.change_source("sales.Items", {"columns": ["Email", "Total"], "mask": None})
    assert edit.warnings == ["Email of sales.Items is sent from now on", "Total of sales.Items is sent from now on"]
    edit = world.change_source("sales.Items", {"columns": None})
    assert edit.warnings == ["every column of sales.Items that its columns left out is sent from now on"]


def test_what_killed_consoles_left_beside_the_file_goes(world: World) -> None:
    for name in (".dstream.hcl.1234.new", ".dstream.hcl.5.new", ".other.hcl.5.new", ".dstream.hcl.x.new"):
        (world.file.parent / name).write_text("half of a fi")
    world.add_source("hr.Staff")
    left = sorted(path.name for path in world.file.parent.iterdir() if path.is_file())
    assert left == [".dstream.hcl.x.new", ".other.hcl.5.new", "dstream.hcl"]


def test_each_stage_may_have_a_file_of_its_own(tmp_path: Path) -> None:
    """The router's has a block for the ingester too, of which it takes queue and tables."""
    world = World(tmp_path, FILE[: FILE.index("publisher")])
    assert world.add_source("hr.Staff").applied
    with pytest.raises(PermanentError, match=r"the file has no router block \(name the router's file with --config\)"):
        world.desk.outputs()
    with pytest.raises(PermanentError, match="the file has no router block"):
        world.put_output("two", "console", new=True)
    with pytest.raises(ConfigurationError, match="poll_interval must be a duration"):
        world.change_source("hr.Staff", {"poll_interval": "soon"})
    world = World(tmp_path, FILE[FILE.index("publisher") :])
    with pytest.raises(PermanentError, match=r"the file has no ingester block \(name the ingester's file"):
        world.desk.sources()
    with pytest.raises(ConfigurationError, match='block "ingester" is missing: the router takes queue and tables'):
        world.put_output("two", "console", new=True)


@pytest.mark.parametrize("before", ["{# a template\ncomment #}\t\t", "/* a */ ", "\t\t"])
@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_several_settings_of_a_block_of_one_line(tmp_path: Path, before: str, ending: str) -> None:
    begin, end = FILE.index("\t\toverrides {"), FILE.index('\t# password = "hidden')
    text = f'{FILE[:begin]}{before}overrides {{ table_name = "sales.Orders" }} # own\n\t}}\n{FILE[end:]}'
    world = World(tmp_path, text.replace("\n", ending))
    settings = {"poll_interval": "1s", "filter": "data.Id > 1", "skip_unchanged": True, "mask": {"Email": "null"}}
    assert world.change_source("sales.Orders", settings).applied
    assert ending == "\n" or "\n" not in world.text.replace("\r\n", "")
    assert "poll_interval = " in world.text
    assert f"}} # own{ending}" in world.text
    assert next(each.settings for each in world.desk.sources() if each.name == "sales.Orders") == settings
    world.desk.undo(None, ACTOR, dry_run=False)
    assert world.text == text.replace("\n", ending)


def test_an_output_that_a_route_names_stays(world: World) -> None:
    with pytest.raises(Conflict, match=r"named by the route on line 38"):
        world.desk.remove_output("hook", None, ACTOR, dry_run=True)
    with pytest.raises(ConfigurationError, match="default output"):
        world.desk.remove_output("default", None, ACTOR, dry_run=True)
    edit = world.put_output("hook", "webhook", new=False, routes=[])
    assert 'to   = ["default"]' in world.text
    assert "no route names hook: it gets nothing until one does" in edit.warnings
    world.desk.remove_output("hook", None, ACTOR, dry_run=False)
    assert 'output "hook"' not in world.text
    with pytest.raises(NotFound):
        world.desk.remove_output("hook", None, ACTOR, dry_run=True)


def test_the_default_output_is_changed_in_its_place(world: World) -> None:
    world.put_output("default", "azure_service_bus", new=False, envelope="cloudevents")
    assert '\toutput {\n\t\tconnection_string = {{ env("BUS") }}\n\t\tenvelope = "cloudevents"\n\t}\n' in world.text
    world.put_output("default", "azure_service_bus", new=False, envelope=None)
    assert world.text == FILE


def test_another_edit_came_first(world: World) -> None:
    seen = world.desk.configuration().revision
    world.add_source("hr.Staff")
    with pytest.raises(Conflict, match=r"ada@example.org did add the source hr.Staff at 2026"):
        world.desk.remove_source("Persons", seen, ACTOR, dry_run=False)
    world.file.write_text(world.text + "# by hand\n")
    with pytest.raises(Conflict, match="changed in another way since"):
        world.desk.undo(None, ACTOR, dry_run=False)


def test_a_write_that_never_came_is_not_taken_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add_source("hr.Staff")
    with monkeypatch.context() as patched:
        patched.setattr(FilePlace, "write", _killed)
        with pytest.raises(PermanentError):
            world.add_source("hr.Wages")
    world.desk.undo(None, ACTOR, dry_run=False)
    assert world.text == FILE


def _killed(*given: object) -> None:
    raise PermanentError("killed")


def test_a_file_that_cannot_be_read_is_not_shown_and_not_edited(tmp_path: Path) -> None:
    world = World(tmp_path, FILE.replace("tables = [", "tables = [["))
    shown = world.desk.configuration()
    assert (shown.writable, "hidden" in shown.text.lower()) == (False, False)
    assert shown.why_not is not None
    assert "syntax" in shown.why_not
    with pytest.raises(DStreamError):
        world.add_source("hr.Staff")


def test_many_at_once_are_one_after_the_other(world: World) -> None:
    threads = [threading.Thread(target=world.add_source, args=(f"hr.T{number}",)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert {each.name for each in world.desk.sources()} >= {f"hr.T{number}" for number in range(4)}
    assert len(world.desk.configuration().revisions) == 4


def test_the_last_revisions_are_kept(tmp_path: Path) -> None:
    revisions = Revisions(tmp_path, "dstream.hcl")
    for number in range(KEPT + 3):
        shown = Revision(revision=str(number), at="now", by="ada", what=f"change {number}")
        revisions.add(shown, f"a\n{number}\n", f"a\n{number + 1}\n", secrets=[])
    assert [each.revision for each in Revisions(tmp_path, "dstream.hcl").all()] == [
        str(number) for number in range(KEPT + 2, 2, -1)
    ]
    (kept,) = tmp_path.iterdir()
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert Revisions(tmp_path, "other.hcl").all() == []


def test_the_file_keeps_its_mode_and_a_link_stays_a_link(tmp_path: Path) -> None:
    world = World(tmp_path)
    real = tmp_path / "real" / "config.hcl"
    real.parent.mkdir()
    world.file.rename(real)
    real.chmod(0o640)
    world.file.symlink_to(real)
    world.add_source("hr.Staff")
    assert world.file.is_symlink()
    assert "hr.Staff" in real.read_text()
    assert stat.S_IMODE(real.stat().st_mode) == 0o640
    assert [each.name for each in real.parent.iterdir()] == ["config.hcl"]


def refusing(number: int) -> Callable[..., None]:
    def refuse(*given: object, **more: object) -> None:
        raise OSError(number, os.strerror(number))

    return refuse


@pytest.mark.parametrize("number", [16, 30, 1], ids=["busy", "read-only folder", "not permitted"])
def test_a_file_that_is_mounted_by_itself_is_written_in_place(
    world: World, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    inode = world.file.stat().st_ino
    replaced = Path.replace

    def replace(path: Path, target: Path) -> Path:
        if target == world.file:
            refusing(number)()
        return replaced(path, target)

    monkeypatch.setattr(Path, "replace", replace)
    world.add_source("hr.Staff")
    assert "hr.Staff" in world.text
    assert world.file.stat().st_ino == inode
    assert sorted(each.name for each in world.file.parent.iterdir()) == ["dstream.hcl", "state"]


def test_a_full_disk_leaves_the_file_as_it_was(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    place = FilePlace(world.file)
    content = place.read()
    monkeypatch.setattr(os, "fsync", refusing(28))
    with pytest.raises(DStreamError, match="No space left"):
        place.write(b"other", content)
    assert world.file.read_bytes() == content.data


def test_two_consoles_do_not_write_over_each_other(world: World) -> None:
    place, other = FilePlace(world.file), FilePlace(world.file)
    seen = place.read()
    other.write(b"first", seen)
    with pytest.raises(Conflict, match="somebody else has changed it"):
        place.write(b"second", seen)
    assert world.file.read_bytes() == b"first"


def test_two_consoles_keep_the_changes_of_both(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    other, entered, done = world.console(), threading.Event(), list[str]()
    write = FilePlace.write

    def slow(place: FilePlace, data: bytes, instead_of: Any) -> None:
        if not entered.is_set():
            entered.set()
            thread.start()
            thread.join(0.3)
        write(place, data, instead_of)

    def change() -> None:
        with pytest.raises(Conflict, match=r"did add the source hr\.Staff"):
            other.put_source(SourceOrder(name="hr.Wages", dry_run=False), before, ACTOR, new=True)
        done.append("refused")

    before = world.desk.configuration().revision
    thread = threading.Thread(target=change)
    monkeypatch.setattr(FilePlace, "write", slow)
    read = FilePlace.read
    seen = read(FilePlace(world.file))
    answers = iter([seen])
    monkeypatch.setattr(other._place, "read", lambda: next(answers, None) or read(FilePlace(world.file)))
    world.add_source("hr.Staff")
    thread.join(20)
    assert done == ["refused"]
    assert [each.what for each in other.configuration().revisions] == ["add the source hr.Staff"]


def test_a_refused_write_is_no_change(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> None:
        raise Conflict("writing: somebody else has changed it meanwhile")

    monkeypatch.setattr(FilePlace, "write", refuse)
    with pytest.raises(Conflict):
        world.add_source("hr.Staff")
    assert world.desk.configuration().revisions == []


def test_no_message_has_what_a_variable_holds(tmp_path: Path) -> None:
    held = {"DB_PASSWORD": "S3cr3t-of-db", "DSTREAM_OUTPUT_URL": "S3cr3t of an address"}
    world = World(tmp_path, environ={"BUS": BUS, **held})
    orders: list[dict[str, Any]] = [
        {"url": {"env": "DB_PASSWORD"}},
        {"url": {"env": "DSTREAM_OUTPUT_URL"}},
        {"url": "https://x.example", "method": {"env": "DB_PASSWORD"}},
        {"url": "https://x.example", "routes": [{"from": [{"env": "DB_PASSWORD"}]}]},
        {"url": "https://x.example", "routes": [{"to": ["two", {"env": "DB_PASSWORD"}]}]},
    ]
    for order in orders:
        why = "is not secret: give the value itself|may not name the variable|what an environment variable has"
        with pytest.raises(ConfigurationError, match=why) as raised:
            world.put_output("two", "webhook", new=True, **order)
        assert "S3cr3t" not in str(raised.value)
    for value in ("S3cr3t-of-db", "s3cr3t-OF-db"):  # as the author of a file may have it
        text = FILE.replace('to   = ["default", "hook"]', 'to = ["default", "hook", "{{ env("DB_PASSWORD") }}"]')
        with pytest.raises(ConfigurationError) as raised:
            judge(text, world.file, {"BUS": BUS, "DB_PASSWORD": value})
        assert "s3cr3t" not in str(raised.value).lower()
        assert "dstream.hcl:40: something is wrong with what an environment variable has" in str(raised.value)


def test_an_order_sends_no_other_secret_than_those_for_outputs(world: World) -> None:
    before = world.text
    refused: list[tuple[dict[str, Any], str]] = [
        ({"url": "https://evil.example"}, "output.hook.password must be given again, because url may"),
        (
            {"url": "https://evil.example", "password": {"env": "HOOK_PASSWORD"}},
            "may not name the variable HOOK_PASSWORD",
        ),
        ({"proxy": {"env": "DSTREAM_OUTPUT_P"}}, "password must be given again, because proxy may"),
        ({"headers": {"X": {"env": "DB_PASSWORD"}}}, "may not name the variable DB_PASSWORD"),
        ({"ca_file": "/etc/shadow", "password": None}, "ca_file names a file or a folder, which orders may not"),
    ]
    for settings, match in refused:
        with pytest.raises(ConfigurationError, match=match):
            world.put_output("hook", "webhook", new=False, **settings)
    with pytest.raises(
        ConfigurationError, match=r"root names a file or a folder, which orders may not; .*--files-under"
    ):
        world.put_output("two", "file", new=True, root="/etc/cron.d")
    assert world.text == before
    password = {"env": "DSTREAM_OUTPUT_PASSWORD"}
    edit = world.put_output("hook", "webhook", new=False, url="https://new.example", password=password)
    assert "the value of the variable DSTREAM_OUTPUT_PASSWORD is sent to where this output goes" in edit.warnings
    with pytest.raises(ConfigurationError, match="password must be given again, because type, urls may"):
        world.put_output("hook", "elasticsearch", new=False, urls=["https://e.example"])


def test_what_orders_may_is_said_at_the_start(tmp_path: Path) -> None:
    allowed = Allowed(frozenset({"HOOK_KEY"}), "/var/spool/outputs/")
    asked = {"headers": {"X": Env("HOOK_KEY")}, "ca_file": "/var/spool/outputs/ca.pem"}
    model = TYPES["webhook"]
    assert list(allowed.problems(model, None, asked, "o")) == []
    for path in ("/var/spool/outputs/../x", "/var/spool/outputsx", "outputs", "~/x", "/etc"):
        [text] = allowed.problems(model, None, {"ca_file": path}, "o")
        assert text == "o.ca_file names a file or a folder that is not under /var/spool/outputs/"
    present = Inner("output", "o", (Setting("bearer_token", plain_of(Env("MINE"))), Setting("url", "https://a")))
    assert list(allowed.problems(model, present, {"headers": {"X": Env("MINE")}}, "o")) == []
    assert "MINE" in next(allowed.problems(model, present, {"url": "https://b", "bearer_token": Env("MINE")}, "o"))
    present = Inner(
        "output", "o", (Setting("headers", {"A": plain_of(Env("MINE")), "B": "x"}), Setting("url", "https://a"))
    )
    for headers, count in ({}, 1), ({"A": None}, 1), ({"A": None, "B": None}, 0):
        assert len(list(allowed.problems(model, present, {"url": "https://b", "headers": headers}, "o"))) == count


def test_a_dry_run_of_an_undo_writes_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.add_source("hr.Staff")
    with monkeypatch.context() as patch:
        patch.setattr(FilePlace, "write", lambda *_: (_ for _ in ()).throw(PermanentError("no")))
        with pytest.raises(PermanentError):
            world.add_source("hr.Other")
    [kept] = world.state.glob("*.json")
    before = kept.stat().st_mtime_ns, kept.stat().st_ino
    world.desk.undo(None, ACTOR, dry_run=True)
    assert (kept.stat().st_mtime_ns, kept.stat().st_ino) == before


def test_an_order_has_bounds(world: World) -> None:
    deep: Any = "x"
    for _ in range(900):
        deep = [deep]
    for settings, match in (
        ({"method": deep}, "nested 10 deep"),
        ({"headers": {f"X-{number}": {"env": "A"} for number in range(3000)}}, "500 names"),
        ({"ca_file": "A" * 70_000}, "65536 characters"),
    ):
        with pytest.raises(ConfigurationError, match=match):
            world.put_output("two", "webhook", new=True, url="https://x.example", **settings)
    with pytest.raises(ConfigurationError, match="nested 10 deep"):
        world.change_source("Persons", {"mask": deep})
