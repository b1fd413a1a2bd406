"""The golden messages of the ingest queue, and of each envelope. A file holds the body on its first line, and the properties below it as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import SecretStr

from common.bus.settings import EnvelopedOutputSettings
from common.message import Message
from router.envelopes.port import Converter
from router.envelopes.registry import converter_of
from router.outputs.azure_service_bus.settings import ServiceBusOutput

GOLDEN = Path(__file__).parents[3] / "golden"
ENVELOPES = GOLDEN / "envelopes"
NATIVE = tuple(sorted(path.stem for path in (GOLDEN / "messages").glob("*.txt") if path.stem != "stand_in"))
"""All but the stand-in, which never reaches a topic."""

_STRING = SecretStr("Endpoint=sb://x;SharedAccessKeyName=n;SharedAccessKey=k")


def output(**given: object) -> ServiceBusOutput:
    return ServiceBusOutput.model_validate({"connection_string": _STRING, **given})


FORMS: Mapping[str, EnvelopedOutputSettings] = {
    "cloudevents": output(envelope="cloudevents"),
    "cloudevents_binary": output(envelope="cloudevents", cloudevents_mode="binary"),
    "debezium": output(envelope="debezium", tombstones=True),
    "changes": output(envelope="changes"),
}
"""By the folder of their golden messages."""


def converter(form: str) -> Converter:
    found = converter_of(FORMS[form])
    assert found is not None
    return found


def native(name: str) -> Message:
    return _message(GOLDEN / "messages" / f"{name}.txt")


def golden(form: str, name: str) -> Sequence[Message]:
    """What becomes of a message in an envelope."""
    files = [ENVELOPES / form / f"{name}.txt", ENVELOPES / form / f"{name}_tombstone.txt"]
    return [_message(path) for path in files if path.exists()]


def written(message: Message) -> str:
    """As a file holds it."""
    told = {
        "message_id": message.message_id,
        "session_id": message.session_id,
        "subject": message.subject,
        "content_type": message.content_type,
        "application_properties": dict(message.application_properties),
    }
    return f"{message.body.decode()}\n{json.dumps(told, indent=2, ensure_ascii=False)}\n"


def _message(path: Path) -> Message:
    body, properties = path.read_bytes().split(b"\n", 1)
    return Message(body, **json.loads(properties))


def main() -> None:
    """`python -m tests.unit.router.envelopes.golden`: writes them all again, after the native ones have changed. Read the difference."""
    for form in FORMS:
        for name in NATIVE:
            first, *others = converter(form).converted(native(name))
            (ENVELOPES / form / f"{name}.txt").write_text(written(first), encoding="utf-8")
            for other in others:
                (ENVELOPES / form / f"{name}_tombstone.txt").write_text(written(other), encoding="utf-8")


if __name__ == "__main__":
    main()
