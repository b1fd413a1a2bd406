"""The management API's envelope: Atom entries and feeds around a description, and the body of an error. No I/O, no HTTP.

Refuses document type declarations, and bodies without content.
Source: https://learn.microsoft.com/rest/api/servicebus/ (requests and answers of every operation).
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final
from xml.etree import ElementTree as ET

from emulators.servicebus.description import InvalidEntity

from .xml_text import write

ATOM: Final = "http://www.w3.org/2005/Atom"
CONNECT: Final = "http://schemas.microsoft.com/netservices/2010/10/servicebus/connect"
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
XSI_TYPE: Final = f"{{{XSI}}}type"


def instant(moment: datetime) -> str:
    """UTC, with microseconds and a Z."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def local_name(element: ET.Element) -> str:
    """An element's name without its namespace."""
    return element.tag.rpartition("}")[2]


def child(parent: ET.Element, namespace: str, name: str, text: str | None = None, **attributes: str) -> ET.Element:
    """Append an element."""
    element = ET.SubElement(parent, f"{{{namespace}}}{name}", attributes)
    element.text = text
    return element


def entry(parent: ET.Element | None, title: str, updated: datetime, link: str) -> tuple[ET.Element, ET.Element]:
    """An entry, on its own or in a feed, and the content to fill; `link` is its address and identity."""
    node = ET.Element(f"{{{ATOM}}}entry") if parent is None else child(parent, ATOM, "entry")
    _head(node, link, title, updated)
    child(node, ATOM, "link", rel="self", href=link)
    return node, child(node, ATOM, "content", type="application/xml")


def feed(title: str, self_link: str, next_link: str | None) -> ET.Element:
    """A page of a list, to be filled with entries; `next_link` is there when more follow."""
    node = ET.Element(f"{{{ATOM}}}feed")
    _head(node, self_link, title, datetime.now(UTC))
    child(node, ATOM, "link", rel="self", href=self_link)
    if next_link is not None:
        child(node, ATOM, "link", rel="next", href=next_link)
    return node


def _head(node: ET.Element, identity: str, title: str, updated: datetime) -> None:
    child(node, ATOM, "id", identity)
    child(node, ATOM, "title", title, type="text")
    child(node, ATOM, "updated", instant(updated))


def error_body(status: int, detail: str) -> bytes:
    """`<Error><Code/><Detail/></Error>`, in no namespace, as the service answers."""
    error = ET.Element("Error")
    ET.SubElement(error, "Code").text = str(status)
    ET.SubElement(error, "Detail").text = detail
    return write(error)


def read_content(body: bytes) -> ET.Element:
    """The description in the entry that a PUT carries. Raises InvalidEntity."""
    if b"<!DOCTYPE" in body or b"<!ENTITY" in body:
        raise InvalidEntity("a document type declaration is not allowed in a management request")
    try:
        root = ET.fromstring(body)
    except ET.ParseError as error:
        raise InvalidEntity(f"the body is not well-formed XML: {error}") from None
    content = root.find(f"{{{ATOM}}}content")
    described = next(iter(content), None) if content is not None else None
    if described is None:
        raise InvalidEntity("the body holds no Atom entry with content")
    return described


def read_bool(text: str) -> bool:
    """Raises InvalidEntity."""
    if text.strip().lower() not in {"true", "false", "1", "0"}:
        raise InvalidEntity(f"the value {text!r} is neither true nor false")
    return text.strip().lower() in {"true", "1"}


def read_int(text: str) -> int:
    """Raises InvalidEntity."""
    try:
        return int(text)
    except ValueError:
        raise InvalidEntity(f"the value {text!r} is not a whole number") from None
