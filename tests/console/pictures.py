"""The pictures of docs/console, taken again by `python -m tests.console.pictures`.

Fixed data at a fixed time, so that a new picture shows a change of the page and of nothing else.
"""

from __future__ import annotations

import argparse
import struct
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Literal

from playwright.sync_api import Page

from tests.console.page.browser import DESKTOP, PHONE, Window, browser, window
from tests.console.page.world import Place, place

AT = 1_795_400_000.0
"""2026-11-23, at night."""
LARGEST = 120_000
Colours = Literal["light", "dark"]
_PICTURES: Sequence[tuple[str, str, tuple[int, int], Sequence[Colours]]] = (
    ("now", "", DESKTOP, ("light", "dark")),
    ("table", "tables/dbo.OrderLines", DESKTOP, ("light", "dark")),
    (
        "story",
        "story?event_id=shop.dbo.Orders:0000002A000001F80003-1-0000002A000001F80002-2",
        DESKTOP,
        ("light", "dark"),
    ),
    ("phone", "", PHONE, ("light", "dark")),
)


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with browser() as chromium, place(at=AT) as console:
        for name, address, size, kinds in _PICTURES:
            for colours in kinds:
                with window(chromium, console.url, size=size, colours=colours) as view:
                    taken = smaller(_picture(console, view, address))
                assert len(taken) <= LARGEST, f"{name}: {len(taken)} bytes"
                (folder / f"{name}-{colours}.png").write_bytes(taken)
                print(f"{name}-{colours}: {len(taken)} bytes")


def _picture(console: Place, view: Window, address: str) -> bytes:
    page: Page = view.page
    page.clock.set_fixed_time(AT)
    view.go(address)
    page.wait_for_timeout(500)
    return page.screenshot(animations="disabled")


def smaller(png: bytes) -> bytes:
    """The same picture in a palette: pages of a tool have few colours, and letters need none of their shades exactly."""
    width, height, channels, data = _pixels(png)
    coarse = bytes(min(255, (value + 2) // 4 * 4) for value in range(256))
    pixels = [
        [even[at : at + 3] for at in range(0, len(even), channels)]
        for even in (row.translate(coarse) for row in _unfiltered(data, width * channels, channels, height))
    ]
    counted = Counter(colour for row in pixels for colour in row)
    palette = [colour for colour, _ in counted.most_common(256)]
    number = {colour: place for place, colour in enumerate(palette)}
    number |= {colour: _nearest(colour, palette) for colour in counted if colour not in number}
    rows = [b"\0" + bytes(number[colour] for colour in row) for row in pixels]
    table = b"".join(palette)
    head = struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)
    body = zlib.compress(b"".join(rows), 9)
    chunks = ((b"IHDR", head), (b"PLTE", table), (b"IDAT", body), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in chunks)


def _nearest(colour: bytes, palette: Sequence[bytes]) -> int:
    def apart(place: int) -> int:
        return sum((one - two) ** 2 for one, two in zip(colour, palette[place], strict=True))

    return min(range(len(palette)), key=apart)


def _pixels(png: bytes) -> tuple[int, int, int, bytes]:
    """Width, height, bytes a pixel, and the filtered rows of what Chromium writes: eight bits, RGB or RGBA."""
    at, data, head = 8, b"", b""
    while at < len(png):
        length = int.from_bytes(png[at : at + 4])
        kind, content = png[at + 4 : at + 8], png[at + 8 : at + 8 + length]
        head, data = (content, data) if kind == b"IHDR" else (head, data + content if kind == b"IDAT" else data)
        at += 12 + length
    width, height, depth, kind_of = struct.unpack(">IIBB", head[:10])
    assert depth == 8
    assert kind_of in (2, 6)
    return width, height, 3 if kind_of == 2 else 4, zlib.decompress(data)


def _unfiltered(data: bytes, width: int, step: int, height: int) -> Iterator[bytes]:
    before = bytearray(width)
    for number in range(height):
        start = number * (width + 1)
        filter, row = data[start], bytearray(data[start + 1 : start + 1 + width])
        if filter == 1:
            for at in range(step, width):
                row[at] = (row[at] + row[at - step]) & 255
        elif filter == 2:
            row = bytearray((one + two) & 255 for one, two in zip(row, before, strict=True))
        elif filter == 3:
            for at in range(width):
                left = row[at - step] if at >= step else 0
                row[at] = (row[at] + (left + before[at]) // 2) & 255
        elif filter == 4:
            for at in range(width):
                left = row[at - step] if at >= step else 0
                corner = before[at - step] if at >= step else 0
                row[at] = (row[at] + _paeth(left, before[at], corner)) & 255
        before = row
        yield bytes(row)


def _paeth(left: int, above: int, corner: int) -> int:
    guess = left + above - corner
    near = min((abs(guess - left), 0, left), (abs(guess - above), 1, above), (abs(guess - corner), 2, corner))
    return near[2]


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, nargs="?", default=Path("docs/console"))
    main(parser.parse_args().folder)
