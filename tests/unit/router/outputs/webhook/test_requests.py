"""A change as an HTTP request: headers, batches, and the signature."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from common.message import Message, Opaque
from router.outputs.headers import Unwritable
from router.outputs.webhook.requests import of_many, of_one
from router.outputs.webhook.signature import key_of, signed

ONE = Message(
    b'{"data": {"Total": 6.3230}, "metadata": {}}',
    "shop.dbo.Persons:1-2",
    session_id="server.shop.persons.events",
    subject="dbo.Persons",
    application_properties={"table": "Wałęsa %", "schema_version": "ac89", "oversize": True, "size": 12},
)


def test_one_change_is_sent_as_it_is() -> None:
    request = of_one(ONE)
    assert request.body is ONE.body
    assert request.headers == {
        "webhook-id": "shop.dbo.Persons:1-2",
        "idempotency-key": "shop.dbo.Persons:1-2",
        "content-type": "application/json",
        "x-dstream-session": "server.shop.persons.events",
        "x-dstream-subject": "dbo.Persons",
        "x-dstream-table": "Wa%C5%82%C4%99sa%20%25",
        "x-dstream-schema-version": "ac89",
        "x-dstream-oversize": "true",
        "x-dstream-size": "12",
    }


def test_attributes_of_cloudevents_have_the_names_of_the_http_binding() -> None:
    request = of_one(replace(ONE, application_properties={"cloudEvents:specversion": "1.0", "cloudEvents:id": "7"}))
    assert {name: value for name, value in request.headers.items() if name.startswith("ce-")} == {
        "ce-specversion": "1.0",
        "ce-id": "7",
    }


def test_no_property_can_begin_another_header() -> None:
    request = of_one(replace(ONE, application_properties={"a\r\nauthorization": "b\r\nhost: c"}))
    assert request.headers["x-dstream-a-authorization"] == "b%0D%0Ahost:%20c"
    assert all(text.isascii() and text.isprintable() for each in request.headers.items() for text in each)


def test_a_batch_is_an_array_in_which_every_body_keeps_its_text() -> None:
    tombstone = replace(ONE, body=b"", message_id="2")
    foreign = replace(ONE, body=b"\xff", message_id="3", application_properties={"x": Opaque(b"\x71")})
    request = of_many([ONE, tombstone, foreign])
    assert b'"body": {"data": {"Total": 6.3230}, "metadata": {}}' in request.body
    first, second, third = json.loads(request.body)
    assert (first["id"], first["session"]) == (ONE.message_id, ONE.session_id)
    assert first["properties"] == ONE.application_properties
    assert second["body"] is None
    assert (third["body_base64"], third["properties"]) == ("/w==", {"x": None})


def test_the_id_of_a_batch_follows_from_the_ids_inside() -> None:
    other = replace(ONE, message_id="2")
    assert of_many([ONE, other]).id == of_many([ONE, replace(other, body=b"{}")]).id
    assert len({of_many(each).id for each in ([ONE, other], [other, ONE], [ONE], [other])}) == 4


def test_structured_cloudevents_are_batched_as_their_format_describes() -> None:
    event = replace(ONE, content_type="application/cloudevents+json; charset=utf-8")
    request = of_many([event, event])
    assert request.headers["content-type"] == "application/cloudevents-batch+json; charset=utf-8"
    assert request.body == b"[" + event.body + b"," + event.body + b"]"


@pytest.mark.parametrize(
    "message",
    [
        replace(ONE, message_id=None),
        replace(ONE, message_id="\ud800"),
        replace(ONE, application_properties={"a": "\ud800"}),
        replace(ONE, content_type="a\nb"),
    ],
)
def test_what_http_cannot_express_is_said_to_be_so(message: Message) -> None:
    with pytest.raises(Unwritable):
        of_one(message)


def test_the_signature_is_that_of_standard_webhooks() -> None:
    """The example that its libraries are tested with."""
    keys = [key_of("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")]
    found = signed(keys, "msg_p5jXN8AQM9LWM0D4loKWxJek", 1614265330, b'{"test": 2432232314}')
    assert found == "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="


def test_two_secrets_give_two_signatures() -> None:
    first, second = (key_of("whsec_" + letter * 32) for letter in "AB")
    both = signed([first, second], "id", 1, b"{}")
    assert both == signed([first], "id", 1, b"{}") + " " + signed([second], "id", 1, b"{}")


@pytest.mark.parametrize(
    "text", ["", "secret", "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_", "whsec_AAAA", "whsec_%%%"]
)
def test_a_secret_of_another_form_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(ValueError, match="must be whsec_") as raised:
        key_of(text)
    assert len(text) < 7 or text not in str(raised.value)
