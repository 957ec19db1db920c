"""Lexical rules of Relay text v0.0.5: a scanner driven by the parser, as a ``%name`` is read by where it stands.

The printer writes variable names verbatim, so they may hold ``:``, ``-``, ``.`` or ``;``. A name is therefore read by
:meth:`Scanner.binder` where it is introduced and recognized again, by longest match, where it is used.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ...errors import ModelError
from .source import Source

Kind = Literal["name", "number", "string", "local", "global", "meta", "punct", "end"]

METADATA_MARK = "#[metadata]"
_SPACE = re.compile(r"[ \t\n\r\f\v]+")
_NAME = re.compile(r"[A-Za-z_/][A-Za-z0-9_/]*(?:\.[A-Za-z_/][A-Za-z0-9_/]*)*")
_NUMBER = re.compile(
    r"(?P<sign>-*)(?:(?P<special>inf|nan)f(?P<swidth>16|32|64)?(?![A-Za-z0-9_])"
    r"|(?P<digits>[0-9]+(?P<fraction>\.[0-9]*)?(?P<exponent>[eE][+-]?[0-9]+)?)"
    r"(?:(?P<suffix>[fi])(?P<width>[0-9]+)?)?(?![A-Za-z0-9_]))"
)
_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|\'([^\'\n]*)\'')
_META = re.compile(r"meta\[([A-Za-z0-9_.]+)\]\[([0-9]{1,9})\]")
_LOCAL = re.compile(r"%([A-Za-z0-9_/]+)")
_GLOBAL = re.compile(r"@([A-Za-z0-9_/.]+)")
_PUNCT = re.compile(r"->|=>|==|!=|<=|>=|[(){}\[\]<>,;:.=+\-*/!?#]")
_OPERATOR = re.compile(r"==|!=|<=|>=|<|>|\+|\*|-(?!>)|/")
_PROJECTION = re.compile(r"\.([0-9]{1,9})(?![A-Za-z0-9_])")
_ATTRIBUTE = re.compile(r"[A-Za-z_][A-Za-z0-9_/]*(?:\.[A-Za-z_][A-Za-z0-9_/]*)*[ \t\r\n]*=(?![=>])")
_TYPE_COMMENT = re.compile(r"/\* (?:ty|span)=")
_COMMENT_EDGE = re.compile(r"/\*|\*/")
_TYPE_START = r"(?:[ \t]+[A-Za-z_(]|Tensor\[|\(|fn[ (]|ref\(|u?int[0-9]|float[0-9]|bool\b|_)"
_PARAMETER = re.compile(rf"%([^\n]{{1,1024}}?)(?=\s*:{_TYPE_START}|\s*\{{virtual_device_|\s*[,)])")
_LET = re.compile(rf"%([^\n]{{1,1024}}?)(?=\s*:{_TYPE_START}|\s*\{{virtual_device_|\s*=|\s*;)")
_REGULAR = re.compile(r"[A-Za-z0-9_/]+\Z")
_ESCAPE = re.compile(r"\\(x[0-9A-Fa-f]{2}|.)")
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_INTEGER_DTYPE = re.compile(r"u?int(?:8|16|32|64)\Z")
_INT_WIDTHS = {"": "int32", "8": "int8", "16": "int16", "32": "int32", "64": "int64"}
_FLOAT_WIDTHS = {"": "float32", "16": "float16", "32": "float32", "64": "float64"}


@dataclass(frozen=True)
class Token:
    """``value`` is the text without sigils (a name, an unescaped string) or the number as it stands."""

    kind: Kind
    value: str
    at: int
    end: int


class Scanner:
    """Reads one token ahead. ``comment`` is the text of the comment between the last token taken and the next one."""

    def __init__(self, source: Source, start: int = 0) -> None:
        self.source = source
        self.text = source.text
        self.comment = ""
        self.metadata_at = -1
        self._odd_names: list[dict[int, set[str]]] = [{}]
        self._offset = start
        self._token: Token | None = None
        self.skip_space()

    def skip_space(self) -> None:
        """Move to the next token, keeping the comment met on the way."""
        self.comment = ""
        offset = self._offset
        while True:
            space = _SPACE.match(self.text, offset)
            offset = space.end() if space else offset
            if self.text.startswith("//", offset):
                line_end = self.text.find("\n", offset)
                offset = len(self.text) if line_end < 0 else line_end
            elif self.text.startswith("/*", offset):
                end = self._comment_end(offset)
                self.comment = self.text[offset + 2 : end - 2].strip()
                offset = end
            else:
                break
        self._offset = offset
        self._token = None

    def _comment_end(self, start: int) -> int:
        # A printed comment stays on its line, and the tensor name in it may hold an unpaired "/*": then the first "*/"
        # ends it. Comments written by hand nest.
        printed = _TYPE_COMMENT.match(self.text, start) is not None
        limit = self.text.find("\n", start) if printed else -1
        limit = len(self.text) if limit < 0 else limit
        depth = 0
        first_end = -1
        for edge in _COMMENT_EDGE.finditer(self.text, start, limit):
            depth += 1 if edge.group() == "/*" else -1
            first_end = edge.end() if first_end < 0 and depth <= 1 and edge.group() == "*/" else first_end
            if depth == 0:
                return edge.end()
            if printed and first_end >= 0:
                return first_end
        raise self.source.error(start, "comment without an end", hint="close it with */")

    def peek(self) -> Token:
        """The next token."""
        if self._token is None:
            self._token = self._scan()
        return self._token

    def take(self) -> Token:
        """The next token, consumed."""
        token = self.peek()
        self._offset = token.end
        self.skip_space()
        return token

    def accept(self, value: str) -> bool:
        """Consume punctuation or keyword ``value`` if it comes next."""
        token = self.peek()
        if token.value == value and token.kind in ("punct", "name"):
            self.take()
            return True
        return False

    def expect(self, value: str, context: str) -> Token:
        """Consume ``value`` or raise; ``context`` says what is being read."""
        token = self.peek()
        if token.value == value and token.kind in ("punct", "name"):
            return self.take()
        raise self.unexpected(f"'{value}'", context)

    def unexpected(self, wanted: str, context: str) -> ModelError:
        """The error for a next token that is not ``wanted``."""
        token = self.peek()
        found = "the end of the text" if token.kind == "end" else f"'{self.text[token.at : token.end][:40]}'"
        return self.source.error(token.at, f"{found} found where {wanted} should be, in {context}")

    def at_attribute(self) -> bool:
        """Whether a ``key=`` comes next."""
        return _ATTRIBUTE.match(self.text, self._offset) is not None

    def at_call(self) -> bool:
        """Whether an opening parenthesis comes next."""
        return self.text.startswith("(", self._offset)

    def peek_operator(self) -> str:
        """The infix operator that comes next, or ``""``; here ``-3`` is a minus and a number."""
        match = _OPERATOR.match(self.text, self._offset)
        return match.group() if match else ""

    def take_operator(self) -> int:
        """Consume the infix operator that comes next; its offset."""
        at = self._offset
        self._offset += len(self.peek_operator())
        self.skip_space()
        return at

    def projection(self) -> int | None:
        """Consume ``.INT`` if it comes next and return the index."""
        match = _PROJECTION.match(self.text, self._offset)
        if match is None:
            return None
        self._offset = match.end()
        self.skip_space()
        return int(match.group(1))

    def open_function(self) -> None:
        """Enter a function: names bound from here on end with it."""
        self._odd_names.append({})

    def close_function(self) -> None:
        """Leave a function."""
        self._odd_names.pop()

    def binder(self, *, let: bool = False) -> Token:
        """Consume the ``%name`` that introduces a variable: a parameter, or with ``let`` the target of a binding."""
        match = (_LET if let else _PARAMETER).match(self.text, self._offset)
        if match is None:
            raise self.unexpected("a variable", "a let binding" if let else "a parameter list")
        token = Token("local", match.group(1), self._offset, match.end())
        if not _REGULAR.match(token.value):
            self._odd_names[-1].setdefault(len(token.value), set()).add(token.value)
        self._offset = token.end
        self.skip_space()
        return token

    def _scan(self) -> Token:
        at = self._offset
        if at >= len(self.text):
            return Token("end", "", at, at)
        char = self.text[at]
        if char == "%":
            return self._scan_local(at)
        if char == "#" and self.text.startswith(METADATA_MARK, at):
            self.metadata_at = at + len(METADATA_MARK)
            return Token("end", "", at, at)
        if char in "\"'":
            return self._scan_string(at)
        if char == "@" and (match := _GLOBAL.match(self.text, at)):
            return Token("global", match.group(1), at, match.end())
        if char == "m" and (match := _META.match(self.text, at)):
            return Token("meta", f"{match.group(1)} {match.group(2)}", at, match.end())
        if match := _NUMBER.match(self.text, at):
            return Token("number", match.group(), at, match.end())
        if match := _NAME.match(self.text, at):
            # "/" is a letter, but "a / b" is a division.
            kind: Kind = "punct" if match.group() == "/" else "name"
            return Token(kind, match.group(), at, match.end())
        if match := _PUNCT.match(self.text, at):
            return Token("punct", match.group(), at, match.end())
        if char.isdigit():
            raise self.source.error(at, "malformed number")
        raise self.source.error(at, f"character {char!r} has no meaning in Relay text")

    def _scan_local(self, at: int) -> Token:
        match = _LOCAL.match(self.text, at)
        longest = match.group(1) if match else ""
        for names in self._odd_names:
            for length in names:
                candidate = self.text[at + 1 : at + 1 + length]
                if length > len(longest) and candidate in names[length]:
                    longest = candidate
        if not longest:
            raise self.source.error(at, "'%' without a variable name")
        return Token("local", longest, at, at + 1 + len(longest))

    def _scan_string(self, at: int) -> Token:
        match = _STRING.match(self.text, at)
        if match is None:
            raise self.source.error(at, "string without an end")
        value = match.group(1) if match.group(1) is not None else match.group(2)
        return Token("string", _ESCAPE.sub(_unescape, value), at, match.end())


def _unescape(match: re.Match[str]) -> str:
    code = match.group(1)
    return chr(int(code[1:], 16)) if len(code) == 3 else _ESCAPES.get(code, code)


def number(source: Source, token: Token, dtype: str = "") -> np.ndarray:
    """The rank-0 constant a number token means.

    ``dtype`` is that of a type comment behind it and wins over the suffix (printers up to 0.8 leave it off int64).
    Raises ``ModelError`` when the number does not fit.
    """
    match = _match_number(source, token)
    if not (match["special"] or match["suffix"] == "f"):
        return _integer(source, token, match, dtype)
    width = _FLOAT_WIDTHS.get((match["swidth"] if match["special"] else match["width"]) or "")
    if width is None:
        raise source.error(token.at, f"'{token.value}' has an unsupported dtype", why="f16, f32 and f64 are known")
    with np.errstate(over="ignore"):
        return np.array(_double(match)).astype(dtype if dtype in _FLOAT_WIDTHS.values() else width)


def attribute_number(source: Source, token: Token) -> int | float:
    """The value of a number token among attributes, where reals are doubles whatever their suffix."""
    match = _match_number(source, token)
    if match["special"] or match["suffix"] == "f":
        return _double(match)
    return int(_integer(source, token, match, ""))


def _match_number(source: Source, token: Token) -> re.Match[str]:
    match = _NUMBER.fullmatch(token.value)
    if match is None:
        raise source.error(token.at, f"'{token.value}' is not a number")
    if match["digits"] and match["suffix"] != "f" and (match["fraction"] or match["exponent"]):
        raise source.error(token.at, f"'{token.value}' is no Relay number", hint=f"write {token.value}f")
    return match


def _negative(match: re.Match[str]) -> bool:
    return len(match["sign"]) % 2 == 1


def _double(match: re.Match[str]) -> float:
    value = float(match["special"] or match["digits"])
    return -value if _negative(match) else value


def _integer(source: Source, token: Token, match: re.Match[str], dtype: str) -> np.ndarray:
    own = _INT_WIDTHS.get(match["width"] or "")
    if own is None:
        raise source.error(token.at, f"'{token.value}' has an unsupported dtype", why="i8, i16, i32 and i64 are known")
    # 20 digits hold every 64-bit integer; converting a longer one would take quadratic time for nothing.
    digits = match["digits"].lstrip("0") or "0"
    value = int(digits) if len(digits) <= 20 else 1 << 80
    value = -value if _negative(match) else value
    if _INTEGER_DTYPE.match(dtype):
        own = dtype
    elif not match["suffix"] and not -(1 << 31) <= value < 1 << 31:
        own = "int64"
    limits = np.iinfo(own)
    if not limits.min <= value <= limits.max:
        raise source.error(token.at, f"{token.value[:40]} does not fit {own}")
    return np.array(value, own)
