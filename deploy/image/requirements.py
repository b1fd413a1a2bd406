"""Prints the part of requirements.lock that an image needs: `python requirements.py GROUP... [--without GROUP] [--except PACKAGE]`, in the folder
of the lock.

A group is `router`, an extra of pyproject.toml, or `build`: the tools that make the wheels. The lock itself says which package needs which
("via"), so an image installs pinned and hashed versions, the same as the tests ran with, and no second lock has to be kept. Resolves nothing.
"""

from __future__ import annotations

import argparse
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

BUILD = ("hatchling", "setuptools")
_PACKAGE = re.compile(r"^([A-Za-z0-9._-]+)==", re.MULTILINE)
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def needed(
    lock: str, project: Mapping[str, Any], *groups: str, without: str | None = None, but: str | None = None
) -> str:
    """The lines of `lock` for `groups`. `but`: a package that is left out, with what it alone needs. Raises KeyError for a group that does
    not exist, or a requirement that is not locked."""
    blocks = _blocks(lock)
    needs: dict[str, set[str]] = {name: set() for name in blocks}
    for name, block in blocks.items():
        for parent in _parents(block) & blocks.keys():
            needs[parent].add(name)
    taken = _closure(needs, [root for group in groups for root in _roots(project, group)], but)
    if without is not None:
        taken -= _closure(needs, _roots(project, without))
    return "".join(block for name, block in blocks.items() if name in taken)


def _closure(needs: Mapping[str, set[str]], roots: Iterable[str], but: str | None = None) -> set[str]:
    waiting, taken = [*roots], set[str]()
    while waiting:
        name = waiting.pop()
        if name not in taken and name != but:
            taken.add(name)
            waiting += needs[name]
    return taken


def _blocks(lock: str) -> dict[str, str]:
    starts = [*_PACKAGE.finditer(lock)]
    ends = [*(start.start() for start in starts[1:]), len(lock)]
    return {start.group(1): lock[start.start() : end] for start, end in zip(starts, ends, strict=True)}


def _parents(block: str) -> set[str]:
    """The packages that a block's comment names: `# via a`, or `# via` and a line for each."""
    comment = " ".join(line.strip(" #") for line in block.splitlines() if line.lstrip().startswith("#"))
    return set(_NAME.findall(comment.removeprefix("via ")))


def _roots(project: Mapping[str, Any], group: str) -> list[str]:
    if group == "build":
        return list(BUILD)
    own = project["project"]
    wanted = [*own["dependencies"], *(own["optional-dependencies"][group] if group != "router" else ())]
    roots: list[str] = []
    for requirement in wanted:
        name, extras = re.match(r"([A-Za-z0-9._-]+)(?:\[([\w,]+)\])?", requirement).groups()  # type: ignore[union-attr]
        own_extras = extras.split(",") if name == own["name"] else ()
        roots += [root for extra in own_extras for root in _roots(project, extra)] or [name.lower()]
    return roots


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("groups", nargs="+", metavar="GROUP")
    parser.add_argument("--without", metavar="GROUP", help="leave out what this group needs")
    parser.add_argument("--except", dest="but", metavar="PACKAGE", help="leave out this one, and what it alone needs")
    options = parser.parse_args()
    project = tomllib.loads(Path("pyproject.toml").read_text())
    print(
        needed(
            Path("requirements.lock").read_text(), project, *options.groups, without=options.without, but=options.but
        ),
        end="",
    )


if __name__ == "__main__":
    main()
