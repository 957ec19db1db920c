"""XML out of strangers' files: elements know their line, and nothing expands, nests or grows without bound."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NoReturn
from xml.parsers import expat

from tvm_stm32.errors import PackError, quoted

LARGEST_FILE = 64 << 20
_DEEPEST = 64
_MOST_ELEMENTS = 500_000
_LONGEST_TAG = 100
_MOST_ATTRIBUTES = 100
_ENCODINGS = re.compile(r"(?i)utf-?8|utf-?16|us-ascii|ascii|iso-8859-1|latin-?1|windows-1252")


@dataclass(eq=False)
class Element:
    """An element of ``file``: its attributes, its own text and its children; ``line`` counts from 1."""

    tag: str
    attributes: dict[str, str]
    file: str
    line: int
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def each(self, *path: str) -> Iterator[Element]:
        """Elements below this one that a path of tags leads to."""
        for child in self.children:
            if child.tag == path[0]:
                if len(path) == 1:
                    yield child
                else:
                    yield from child.each(*path[1:])

    def over(self, other: Element) -> Element:
        """This element with the attributes of ``other`` that it does not have itself."""
        return Element(self.tag, {**other.attributes, **self.attributes}, self.file, self.line)

    def problem(self, message: str, *, why: str = "", hint: str = "") -> PackError:
        """An error about this element: names file, line, tag and name."""
        names = ("id", "name", "Dname", "Dvariant", "Dfamily", "DsubFamily", "Cgroup", "Cbundle")
        name = next((f" {key}={quoted(self.attributes[key])}" for key in names if key in self.attributes), "")
        return PackError(f"{self.file}, line {self.line}: <{self.tag}{name}>: {message}", why=why, hint=hint)


def read_bytes(path: Path) -> bytes:
    """The content of a file that is small enough. Raises :class:`PackError` naming it."""
    try:
        if not os.path.isfile(path):  # noqa: PTH113 - Path.is_file raises where a path cannot exist
            raise PackError(f"{quoted(str(path))} is no file")
        with path.open("rb") as file:
            data = file.read(LARGEST_FILE + 1)
    except OSError as error:
        raise PackError(f"cannot read {quoted(str(path))}", why=error.strerror or str(error)) from error
    if len(data) > LARGEST_FILE:
        raise PackError(f"{quoted(str(path))} is too large", why=f"it has more than {LARGEST_FILE:,} bytes")
    return data


def parse_xml(data: bytes, file: str, skip: Collection[str] = ()) -> Element:
    """The root of an XML document; elements whose tag is in ``skip`` are checked for form and left out.

    Raises :class:`PackError` naming ``file`` and the line when the text is not well-formed, declares a document type
    (the only way to entities), or exceeds a limit.
    """
    if len(data) > LARGEST_FILE:
        raise PackError(f"{file} is too large", why=f"it has more than {LARGEST_FILE:,} bytes")
    builder = _Builder(file, skip)
    try:
        builder.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise PackError(
            f"{file}, line {error.lineno}: not well-formed XML", why=expat.ErrorString(error.code) or "unknown error"
        ) from error
    except (LookupError, ValueError) as error:  # of an encoding the declaration names
        raise PackError(f"{file}, line 1: not readable XML", why=" ".join(str(error).split())[:200]) from error
    assert builder.root is not None  # expat accepts no document without an element
    return builder.root


class _Builder:
    def __init__(self, file: str, skip: Collection[str]) -> None:
        self.root: Element | None = None
        self._file = file
        self._skip = skip
        self._open: list[Element] = []
        self._texts: list[list[str]] = []
        self._depth = 0
        self._skipping = 0
        self._count = 0
        self.parser = expat.ParserCreate()
        self.parser.buffer_text = True
        self.parser.XmlDeclHandler = self._declaration
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters

    def _refuse(self, message: str, why: str = "") -> NoReturn:
        raise PackError(f"{self._file}, line {self.parser.CurrentLineNumber}: {message}", why=why)

    def _declaration(self, _version: str, encoding: str | None, _standalone: int) -> None:
        if encoding and not _ENCODINGS.fullmatch(encoding):
            self._refuse(f"encoding {quoted(encoding)} is not supported", "packs are UTF-8")

    def _doctype(self, *_: object) -> NoReturn:
        self._refuse("a document type is declared", "its entities could expand to gigabytes or read other files")

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(f"elements nest deeper than {_DEEPEST}")
        if len(tag) > _LONGEST_TAG:
            self._refuse(f"element {quoted(tag)} has a name of more than {_LONGEST_TAG} characters")
        if self._skipping or tag in self._skip:
            self._skipping += 1
            return
        if len(attributes) > _MOST_ATTRIBUTES or any(len(name) > _LONGEST_TAG for name in attributes):
            self._refuse(f"element {quoted(tag)} has more than {_MOST_ATTRIBUTES} attributes, or one with a long name")
        self._count += 1
        if self._count > _MOST_ELEMENTS:
            self._refuse(f"more than {_MOST_ELEMENTS:,} elements")
        element = Element(tag, attributes, self._file, self.parser.CurrentLineNumber)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)
        self._texts.append([])

    def _end(self, _tag: str) -> None:
        self._depth -= 1
        if self._skipping:
            self._skipping -= 1
            return
        self._open.pop().text = "".join(self._texts.pop()).strip()

    def _characters(self, text: str) -> None:
        if self._texts and not self._skipping:
            self._texts[-1].append(text)
