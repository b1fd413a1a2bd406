"""Values that must not get out, in the forms in which they might: encodings, and hashes that anyone can compute. Finds them in bytes."""

from __future__ import annotations

import base64
import hashlib
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path

_DIGESTS = ("md5", "sha1", "sha224", "sha256", "sha384", "sha512", "sha3_256", "blake2b")
_ENCODINGS = ("utf-8", "utf-16-le")
_SHOWN = 24
"""Digits of a hash: somebody may cut it."""


def forms(value: str, column: str = "") -> dict[str, bytes]:
    """What to look for, by what it is. `column`: of a key, whose hash is also that of a row in a snapshot, with its name and length."""
    found = {}
    for encoding in _ENCODINGS:
        raw = value.encode(encoding)
        found[encoding] = raw
        found |= {f"base64 of {encoding}, at {shift}": _base64(raw, shift) for shift in range(3)}
        found[f"hex of {encoding}"] = raw.hex().encode()
        found |= {f"{name} of {encoding}": _digest(name, raw) for name in _DIGESTS}
    found["JSON in hex"] = f'"{value}"'.encode().hex().encode()
    key = f"{column}={value}"
    found["the hash of a row"] = _digest("sha256", f"{len(key)}:{key}".encode())
    return found


def _base64(raw: bytes, shift: int) -> bytes:
    """As it stands in the base64 of something longer, `shift` bytes behind a group of three, without the characters at its ends that depend on
    what is around it."""
    encoded = base64.b64encode(bytes(shift) + raw).rstrip(b"=")
    return encoded[-(-shift * 8 // 6) : -1]


def _digest(name: str, raw: bytes) -> bytes:
    return hashlib.new(name, raw).hexdigest()[:_SHOWN].encode()


class Search:
    """`values`: what must not get out, with the columns that hold them."""

    def __init__(self, values: Iterable[tuple[str, str]]) -> None:
        self._forms = {
            f"{what} {value!r}": form for value, column in values for what, form in forms(value, column).items()
        }

    def found(self, places: Mapping[str, bytes]) -> list[str]:
        """Which of the values are in which place, and how."""
        return [f"{place}: {what}" for place, content in places.items() for what in self._within(content)]

    def _within(self, content: bytes) -> Iterator[str]:
        lower = content.lower()  # hexadecimal digits in either case
        return (what for what, form in self._forms.items() if form in content or form.lower() in lower)


class Watch:
    """Every file that was ever seen below a folder, while it is watched. Files that are there for a moment, as PySpark's are, are seen if the
    processes that remove them have `variables`: `removed/` then keeps a copy."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._seen = folder, dict[tuple[str, int], bytes]()
        self._removed = folder / "removed"
        self._removed.mkdir()
        self.variables = {
            "PYTHONPATH": str(Path(__file__).with_name("keeping_removed")),
            "KEEP_REMOVED": str(self._removed),
        }

    @contextmanager
    def watching(self) -> Iterator[None]:
        over = threading.Event()
        thread = threading.Thread(target=self._repeat, args=(over,), daemon=True)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def files(self) -> dict[str, bytes]:
        """By path below the folder, and size."""
        self._look()
        return {f"{name} ({size} bytes)": content for (name, size), content in list(self._seen.items())}

    def removed(self) -> dict[str, bytes]:
        """Copies of what the processes removed, by path and process."""
        return {each.name: each.read_bytes() for each in self._removed.iterdir()}

    def _repeat(self, over: threading.Event) -> None:
        while not over.wait(0.5):
            with suppress(OSError):
                self._look()

    def _look(self) -> None:
        for path in self._folder.rglob("*"):
            with suppress(OSError):
                known = str(path.relative_to(self._folder)), path.stat().st_size
                if known not in self._seen and path.is_file():
                    self._seen[known] = path.read_bytes()
