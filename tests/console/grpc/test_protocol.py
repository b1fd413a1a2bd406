"""`api/dstream.proto` says what the desk can do: nothing of a document or a port is missing, and what is shipped is what it says."""

from __future__ import annotations

import inspect
import subprocess
import sys
import types
import typing
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import descriptor_pb2
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from common.errors import ConfigurationError
from desk import desk as ports
from desk.console.grpc.documents import fill, read
from desk.console.grpc.methods import CALLS
from desk.console.grpc.protocol import FILE, message, services
from desk.documents import audit, configuring, messages, overview, shape, tables
from desk.documents.configuring import OutputOrder, SourceOrder
from desk.documents.messages import DeadLetterOrder, StoryOrder
from desk.documents.shape import Document
from desk.documents.tables import OffsetOrder

ROOT = Path(__file__).parents[3]
MODULES = (audit, configuring, messages, overview, shape, tables)
DOCUMENTS = [
    found
    for module in MODULES
    for found in vars(module).values()
    if inspect.isclass(found)
    and issubclass(found, Document)
    and found.__module__ == module.__name__
    and found not in (Document, shape.Page)
]
"""`Page` is in each message that is one."""

WRAPPED = {"Key", "Routes", "Sequences"}
OTHERWISE = {"EventService.Watch": "watching.changed"}
NOT_OFFERED = {"audit.write"}
"""The audited wrapper alone writes lines."""


def test_what_is_shipped_is_what_the_file_says(tmp_path: Path) -> None:
    """`make proto` writes it."""
    out = tmp_path / "dstream.binpb"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"--proto_path={ROOT / 'api'}"]
    subprocess.run([*command, f"--descriptor_set_out={out}", str(ROOT / "api" / "dstream.proto")], check=True)
    shipped = (ROOT / "desk" / "console" / "grpc" / "generated" / "dstream.binpb").read_bytes()
    read_as = descriptor_pb2.FileDescriptorSet.FromString
    assert read_as(shipped) == read_as(out.read_bytes()), "api/dstream.proto was edited: run `make proto`"


def _of(annotation: Any) -> tuple[Any, bool]:
    """Without Annotated and None; whether it may be null."""
    nullable = False
    while True:
        if typing.get_origin(annotation) is typing.Annotated:
            annotation = typing.get_args(annotation)[0]
        elif typing.get_origin(annotation) in (typing.Union, types.UnionType):
            (annotation,) = [each for each in typing.get_args(annotation) if each is not type(None)]
            nullable = True
        else:
            return annotation, nullable


def _expected(annotation: Any) -> str:
    """The type of a field that means this."""
    annotation, nullable = _of(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        inner = _expected(arguments[0])
        return f"list of {inner}" if not nullable else f"wrapped {inner}"
    if origin is dict:
        inner = "Struct" if arguments[1] is Any else f"map to {_expected(arguments[1])}"
        return f"wrapped {inner}" if nullable else inner
    if origin is typing.Literal:
        return "string"
    return {str: "string", int: "int64", float: "double", bool: "bool", datetime: "Timestamp"}.get(
        annotation, getattr(annotation, "__name__", str(annotation))
    )


def _found(field: Any) -> str:
    kind = field.message_type
    if kind is None:
        name = {v: k for k, v in descriptor_pb2.FieldDescriptorProto.Type.items()}[field.type][5:].lower()
    elif kind.GetOptions().map_entry:
        return f"map to {_found(kind.fields_by_name['value'])}"
    elif kind.name in WRAPPED:
        return "wrapped " + _found(kind.fields_by_name["values"]).removeprefix("list of ")
    else:
        name = kind.name
    return f"list of {name}" if field.is_repeated else name


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.__name__)
def test_a_document_has_its_message_with_the_same_fields(document: type[Document]) -> None:
    found = FILE.message_types_by_name[document.__name__]
    expected = {name: _expected(field.annotation) for name, field in document.model_fields.items()}
    assert {field.name: _found(field) for field in found.fields} == expected


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.__name__)
def test_a_field_that_may_be_absent_shows_it(document: type[Document]) -> None:
    """A value that may be null, or has a default other than protobuf's own, must not be confused with it."""
    for name, field in document.model_fields.items():
        found = FILE.message_types_by_name[document.__name__].fields_by_name[name]
        default = None if field.is_required() else field.get_default(call_default_factory=True)
        if (_of(field.annotation)[1] or default) and not found.is_repeated:
            assert found.has_presence, f"{name} of {document.__name__} must be optional"


def test_no_message_of_a_document_is_of_another_name() -> None:
    ours = {found.__name__ for found in DOCUMENTS}
    others = {name for name in FILE.message_types_by_name if name not in ours}
    assert {name for name in others if not name.endswith(("Request", "Response"))} == WRAPPED | {"Event"}


def _ports() -> Iterator[str]:
    fields = typing.get_type_hints(ports.Desk)
    for name, port in fields.items():
        for method, value in vars(port).items():
            if inspect.isfunction(value) and not method.startswith("_"):
                yield f"{name}.{method}"


def test_each_method_of_the_desk_is_offered_and_no_other() -> None:
    offered = {call.asks for call in CALLS.values()} | set(OTHERWISE.values())
    assert offered == set(_ports()) - NOT_OFFERED
    assert {method.name for _, methods in services() for method in methods} == CALLS.keys() | OTHERWISE.keys()


def test_what_takes_an_actor_is_what_may_change_something() -> None:
    fields = typing.get_type_hints(ports.Desk)
    for name, call in CALLS.items():
        port, _, method = call.asks.partition(".")
        takes = inspect.signature(getattr(fields[port], method)).parameters
        assert call.changes == ("actor" in takes), name


TEXT = st.text(max_size=20).filter(lambda text: text == text.encode("utf-8", "ignore").decode())
PLAIN = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT
)
OPEN = st.recursive(PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3))
MOMENT = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=st.just(UTC))


def _values(annotation: Any) -> st.SearchStrategy[Any]:
    annotation, nullable = _of(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is list:
        found: st.SearchStrategy[Any] = st.lists(_values(arguments[0]), max_size=2)
    elif origin is dict:
        found = st.dictionaries(TEXT, OPEN if arguments[1] is Any else _values(arguments[1]), max_size=2)
    elif origin is typing.Literal:
        found = st.sampled_from(arguments)
    elif inspect.isclass(annotation) and issubclass(annotation, Document):
        found = _documents(annotation)
    else:
        found = {
            str: TEXT.map(str.strip),
            int: st.integers(1, 100),
            float: st.floats(allow_nan=False),
            bool: st.booleans(),
            datetime: MOMENT,
            Any: OPEN,
        }[annotation]
    return st.none() | found if nullable else found


def _documents(document: type[Document]) -> st.SearchStrategy[Any]:
    return st.fixed_dictionaries(
        {name: _values(field.annotation) for name, field in document.model_fields.items()}
    ).map(document.model_validate)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda each: each.__name__)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(data=st.data())
def test_a_document_comes_back_as_it_was(document: type[Document], data: st.DataObject) -> None:
    """Over bytes, as a client gets it."""
    made = data.draw(_documents(document))
    kind = message(document.__name__)
    again = read(document, kind.FromString(fill(kind(), made).SerializeToString()))
    assert again == made


def test_defaults_of_an_order_hold_where_a_client_leaves_them_out() -> None:
    order = read(DeadLetterOrder, message("DeadLetterOrder")(entity="queue"))
    assert order == DeadLetterOrder(entity="queue")
    assert (order.dry_run, order.safe, order.most_replays, order.sequences) == (True, True, 3, None)


def test_no_sequence_numbers_are_not_all() -> None:
    empty = message("DeadLetterOrder")(entity="queue")
    empty.sequences.SetInParent()
    assert read(DeadLetterOrder, empty).sequences == []


def test_numbers_that_a_double_would_change_are_text() -> None:
    sent = {"big": 2**53 + 1, "fits": 2**53, "half": 0.5, "bytes": b"\xff", "when": datetime(2026, 1, 2, tzinfo=UTC)}
    again = read(SourceOrder, fill(message("SourceOrder")(), SourceOrder(name="dbo.T", settings=sent))).settings
    assert again == {
        "big": "9007199254740993",
        "fits": 2**53,
        "half": 0.5,
        "bytes": "�",
        "when": "2026-01-02T00:00:00+00:00",
    }


def test_half_of_a_surrogate_pair_is_replaced() -> None:
    """JSON can hold it, and so a body or a property."""
    filled = fill(message("SourceOrder")(), SourceOrder(name="dbo.T", settings={"a\ud800": "\udc00b"}))
    assert {name: value.string_value for name, value in filled.settings.fields.items()} == {"a?": "?b"}


@pytest.mark.parametrize(
    ("document", "asked", "problem"),
    [
        (DeadLetterOrder, {"entity": "q" * 601}, "order.entity: String should have at most 600 characters"),
        (DeadLetterOrder, {"entity": "q", "most_replays": 0}, "order.most_replays: Input should be greater than"),
        (StoryOrder, {"most": 201}, "order.most: Input should be less than or equal to 200"),
        (OffsetOrder, {"lsn": "secret" * 20}, "order.lsn: String should have at most 64 characters"),
        (OutputOrder, {"name": "a", "type": "kafka", "reason": "r" * 401}, "order.reason: String should have at most"),
    ],
)
def test_bad_input_is_named_and_not_quoted(document: type[Document], asked: dict[str, Any], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read(document, message(document.__name__)(**asked), "order")
    assert problem in str(caught.value)
    assert "secret" not in str(caught.value)
    assert "qqq" not in str(caught.value)


def test_a_time_that_is_none_is_refused() -> None:
    order = message("OffsetOrder")()
    order.time.seconds = 10**13
    with pytest.raises(ConfigurationError, match="outside the years"):
        read(OffsetOrder, order)


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_a_number_that_is_none_is_refused(number: float) -> None:
    order = message("SourceOrder")(name="dbo.T")
    order.settings.fields["a"].number_value = number
    with pytest.raises(ConfigurationError, match="NaN or infinite"):
        read(SourceOrder, order)
