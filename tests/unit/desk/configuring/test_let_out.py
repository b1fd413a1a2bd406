"""What an edit or an undo sends from now on that it hid, or sent elsewhere: shapes, routes and outputs of two texts."""

from __future__ import annotations

from desk.configuring.hcl.draft import Draft
from desk.configuring.outputs import exposed as rerouted
from desk.configuring.sources import exposed as uncovered

SHAPE = """\
  shape {
    exclude_columns = ["RowVersion", "Notes"]
    mask            = { Email = "redact", Phone = "truncate:2" }
    filter          = "data.Id > 7"
    skip_operations = ["Delete"]
    skip_unchanged  = true
  }
"""


def ingester(shape: str = SHAPE, own: str = "", tables: str = '"Persons", "Orders"') -> Draft:
    overrides = (
        f'  tables_overrides {{\n    overrides {{\n      table_name = "Persons"\n{own}\n    }}\n  }}\n' if own else ""
    )
    return Draft(f"ingester {{\n  tables = [{tables}]\n{shape}{overrides}}}\n", "x")


def router(*blocks: str) -> Draft:
    return Draft("router {\n  output {\n  }\n" + "\n".join(blocks) + "\n}\n", "x")


def hook(url: str = "https://one.example/in") -> str:
    return f'  output "hook" {{\n    type = "webhook"\n    url  = "{url}"\n  }}'


def route(tables: str, to: str = '"hook"', more: str = "") -> str:
    return f"  route {{\n    from = [{tables}]\n    to   = [{to}]\n{more}\n  }}"


def test_an_override_uncovers_what_the_shape_of_all_tables_hides() -> None:
    def told(own: str) -> list[str]:
        return list(uncovered(ingester(), ingester(own=own)))

    assert told('columns = ["Id", "Notes", "Email"]') == ["Notes of dbo.Persons is sent from now on"]
    assert told('mask = { EMAIL = "truncate:3" }') == ["EMAIL of dbo.Persons is masked in another way from now on"]
    assert told('exclude_columns = ["Age"]\n mask = { Ssn = "null" }\n poll_interval = "1s"') == []
    assert told('filter = "true"') == ["rows of dbo.Persons that its filter held back are sent from now on"]
    assert told("skip_operations = []") == ["changes of dbo.Persons of the kind delete are sent from now on"]
    assert told("skip_unchanged = false") == [
        "changes of dbo.Persons that change no column that is sent are sent from now on"
    ]
    assert told('on_filter_error = "dead_letter"') == [
        "changes of dbo.Persons on which its filter fails are dead-lettered from now on, and can be read there"
    ]


def test_an_override_goes_and_the_shape_of_all_tables_stays() -> None:
    def told(own: str) -> list[str]:
        return list(uncovered(ingester(own=own), ingester()))

    assert told('mask = { Email = "redact", Ssn = "null" }\n filter = "data.Id > 9"') == [
        "Ssn of dbo.Persons is sent from now on",
        "rows of dbo.Persons that its filter held back are sent from now on, if the new one lets them pass",
    ]
    assert told('columns = ["Id"]') == [
        "Email of dbo.Persons is sent from now on, masked",
        "Phone of dbo.Persons is sent from now on, masked",
        "every column of dbo.Persons that its columns left out is sent from now on",
    ]
    assert told('columns = ["Id", "Notes"]\n skip_operations = ["Delete", "Insert"]')[-1] == (
        "changes of dbo.Persons of the kind insert are sent from now on"
    )


def test_a_table_that_comes_with_an_override_says_what_that_uncovers() -> None:
    old = ingester(tables='"Orders"')
    assert list(uncovered(old, ingester(own='columns = ["Id", "Notes"]'))) == [
        "Notes of dbo.Persons is sent from now on"
    ]
    assert list(uncovered(old, ingester())) == []
    assert list(uncovered(ingester(own='columns = ["Id"]'), old)) == [], "it is not sent at all"


def test_a_weaker_shape_is_of_every_table() -> None:
    weaker = SHAPE.replace('"RowVersion", ', "").replace('Email = "redact", ', "")
    own = 'mask = { Email = "null" }'
    assert list(uncovered(ingester(own=own), ingester(weaker, own=own))) == [
        "RowVersion of dbo.Persons is sent from now on",
        "Email of the other tables is sent from now on",
        "RowVersion of the other tables is sent from now on",
    ]
    assert "every column of the other tables that its columns left out is sent from now on" in list(
        uncovered(ingester('  shape { columns = ["Id"] }\n'), ingester(""))
    )


def test_what_a_route_sends_where_it_was_not_sent() -> None:
    def told(old: list[str], new: list[str]) -> list[str]:
        return list(rerouted(router(hook(), *old), router(hook(), *new)))

    some = "changes of {} go to the output hook from now on"
    assert told([], [route('"Persons", "sales.*"', '"default", "hook"')]) == [
        some.format("Persons"),
        some.format("sales.*"),
    ]
    assert told([route('"sales.*"')], [route('"sales.Orders"')]) == [
        "changes of sales.* go to the default output from now on, unless another route names them"
    ]
    assert told([route('"sales.Orders"')], [route('"sales.*"')])[0] == some.format("sales.*")
    assert told([route('"sales.*", "!sales.Audit*"')], [route('"sales.*"')]) == [some.format("sales.*")]
    assert told([route('"sales.*"')], [route('"sales.*", "!sales.Audit*"')]) == []
    with_filter = route('"sales.*"', more='    when = "data.Id > 7"')
    assert told([route('"sales.*"')], [with_filter]) == []
    assert told([with_filter], [route('"sales.*"')]) == [some.format("sales.*")]
    assert told([with_filter], [with_filter.replace("7", "3")]) == [
        some.format("sales.*") + ", those that the filter of their route lets pass"
    ]
    assert told([route('"sales.*"')], [route('"sales.*"', more='    topic = "/x"')]) == [some.format("sales.*")]


def test_an_output_that_goes_elsewhere() -> None:
    old, new = router(hook()), router(hook("https://two.example/in"))
    assert list(rerouted(old, new)) == ["changes for the output hook go to another place from now on: its url changed"]
    assert list(rerouted(old, old)) == []
