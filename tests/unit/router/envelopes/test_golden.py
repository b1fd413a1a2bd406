"""Every message of the ingest queue in every envelope, byte by byte; and what no envelope changes."""

from __future__ import annotations

import pytest

from common.bus.settings import EnvelopeName
from common.message import Message
from router.envelopes.registry import _ENVELOPES, converter_of
from tests.unit.router.envelopes.golden import ENVELOPES, FORMS, NATIVE, converter, golden, native, output, written


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NATIVE)
def test_a_message_is_its_golden_one(form: str, name: str) -> None:
    made = converter(form).converted(native(name))
    assert [written(message) for message in made] == [written(message) for message in golden(form, name)]


@pytest.mark.parametrize("form", FORMS)
def test_each_file_is_of_a_message(form: str) -> None:
    names = {path.stem.removesuffix("_tombstone") for path in (ENVELOPES / form).iterdir()}
    assert names == set(NATIVE)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", NATIVE)
def test_identity_session_and_properties_never_depend_on_the_envelope(form: str, name: str) -> None:
    whole = native(name)
    message = converter(form).converted(whole)[0]

    def kept(of: Message) -> dict[str, object]:
        return {key: of.application_properties[key] for key in whole.application_properties}

    assert (message.message_id, message.session_id, message.subject) == (
        whole.message_id,
        whole.session_id,
        whole.subject,
    )
    assert kept(message) == kept(whole)
    assert {key.partition(":")[0] for key in message.application_properties.keys() - kept(whole).keys()} <= {
        "cloudEvents"
    }


def test_every_name_has_an_envelope_and_the_native_one_is_none() -> None:
    names = EnvelopeName.__args__  # type: ignore[attr-defined]
    assert set(names) == set(_ENVELOPES)
    assert converter_of(output()) is None
    assert all(converter_of(output(envelope=name)) is not None for name in names if name != "dstream")


def test_tombstones_come_only_where_they_are_asked_for() -> None:
    made = converter_of(output(envelope="debezium"))
    assert made is not None
    assert len(made.converted(native("delete_in_another_schema"))) == 1
