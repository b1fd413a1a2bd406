"""The management API's documents as text, with namespaces written as the service writes them.

Some clients read names together with their prefixes, JavaScript's among them: it looks for `entry`, `i:type` and, with the prefix
that the element around it declares, `d2p1:ActiveMessageCount`. So elements have no prefix and a default namespace wherever that
changes, but for the counts; ElementTree's own writing would give every name a prefix.
Refuses nothing: whoever builds the tree answers for it.
Source: learn.microsoft.com "Get Entity" of the Service Bus REST API, the answer of 2013-10 and later.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final
from xml.etree import ElementTree as ET
from xml.sax.saxutils import escape, quoteattr

_DECLARATION: Final = "<?xml version='1.0' encoding='utf-8'?>\n"
_ON_CHILDREN: Final = {"http://schemas.microsoft.com/netservices/2011/06/servicebus": "d2p1"}
"""Namespaces whose elements have a prefix, declared by the element around them."""
_ON_ATTRIBUTES: Final = {"http://www.w3.org/2001/XMLSchema-instance": "i"}


def write(root: ET.Element) -> bytes:
    """UTF-8, with an XML declaration."""
    return (_DECLARATION + "".join(_element(root, "", frozenset()))).encode()


def _element(element: ET.Element, default: str, prefixes: frozenset[str]) -> Iterator[str]:
    namespace, name = _split(element.tag)
    attributes = []
    if namespace in _ON_CHILDREN:
        name, own = f"{_ON_CHILDREN[namespace]}:{name}", default
    else:
        own = namespace
        if own != default:
            attributes.append(("xmlns", own))
    for where, known in ((_split(child.tag)[0], _ON_CHILDREN) for child in element):
        if where in known and known[where] not in prefixes:
            attributes.append((f"xmlns:{known[where]}", where))
            prefixes |= {known[where]}
    for key, value in element.attrib.items():
        where, plain = _split(key)
        prefix = _ON_ATTRIBUTES.get(where)
        if prefix is not None and prefix not in prefixes:
            attributes.append((f"xmlns:{prefix}", where))
            prefixes |= {prefix}
        attributes.append((plain if prefix is None else f"{prefix}:{plain}", value))
    said = "".join(f" {key}={quoteattr(value)}" for key, value in attributes)
    if not len(element) and not element.text:
        yield f"<{name}{said} />"
        return
    yield f"<{name}{said}>{escape(element.text or '')}"
    for child in element:
        yield from _element(child, own, prefixes)
    yield f"</{name}>"


def _split(tag: str) -> tuple[str, str]:
    """Namespace, empty for none, and local name."""
    namespace, _, name = tag.rpartition("}")
    return namespace.removeprefix("{"), name
