"""Management documents as text: namespaces as the service writes them, since clients read prefixes."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from emulators.servicebus.administration.atom import COUNTS
from emulators.servicebus.administration.feed import ATOM, CONNECT, XSI_TYPE, child
from emulators.servicebus.administration.xml_text import write


def document() -> ET.Element:
    root = ET.Element(f"{{{ATOM}}}entry")
    child(root, ATOM, "title", "a<b&\u4e2d", type='"x"')
    described = child(child(root, ATOM, "content"), CONNECT, "QueueDescription")
    child(described, CONNECT, "Filter", **{XSI_TYPE: "SqlFilter"})
    counts = child(described, CONNECT, "CountDetails")
    child(counts, COUNTS, "ActiveMessageCount", "1")
    child(counts, COUNTS, "DeadLetterMessageCount", "2")
    return root


def test_only_counts_and_types_have_a_prefix_and_it_is_declared_where_it_is_used() -> None:
    text = write(document()).decode()
    assert text.splitlines()[1] == (
        f'<entry xmlns="{ATOM}"><title type=\'"x"\'>a&lt;b&amp;\u4e2d</title><content>'
        f'<QueueDescription xmlns="{CONNECT}">'
        '<Filter xmlns:i="http://www.w3.org/2001/XMLSchema-instance" i:type="SqlFilter" />'
        f'<CountDetails xmlns:d2p1="{COUNTS}"><d2p1:ActiveMessageCount>1</d2p1:ActiveMessageCount>'
        "<d2p1:DeadLetterMessageCount>2</d2p1:DeadLetterMessageCount></CountDetails>"
        "</QueueDescription></content></entry>"
    )


def test_what_is_written_reads_back_as_the_same_tree() -> None:
    assert ET.canonicalize(ET.tostring(ET.fromstring(write(document())))) == ET.canonicalize(ET.tostring(document()))


def test_elements_of_no_namespace_stay_so() -> None:
    root = ET.Element("Error")
    ET.SubElement(root, "Code").text = "404"
    assert write(root).endswith(b"<Error><Code>404</Code></Error>")
