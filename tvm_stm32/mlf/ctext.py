"""C text at file level: its functions, prototypes, data and directives, found without a compiler.

The text is a code generator's, so a scanner of braces, strings and comments tells its parts apart.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from ..errors import ModelError

Kind = Literal["function", "prototype", "data", "type", "directive"]

_TOKEN = re.compile(
    r"//[^\n]*|/\*.*?\*/|\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*'|[{};]|^[ \t]*\#(?:\\\n|[^\n])*|\"|'|/\*",
    re.DOTALL | re.MULTILINE,
)
_COMMENT = re.compile(r"(\"(?:\\.|[^\"\\\n])*\"|'(?:\\.|[^'\\\n])*')|//[^\n]*|/\*.*?\*/", re.DOTALL)
_CONDITIONAL = re.compile(r"\s*#\s*(if|ifdef|ifndef|else|elif|endif)\b(.*)")
_OTHER_SPELLING = re.compile(r"\?\?[=/'()!<>-]|^[ \t]*%:", re.MULTILINE)
# Each is looked for to the end of the text, so there must not be many.
_MOST_OPEN = 100
_PLUS_PLUS = re.compile(r"def(?:ined)?\s*\(?\s*__cplusplus\b")


@dataclass(frozen=True)
class Item:
    """A part of a file: its text without comments, its name ("" where it has none), in functions also their body."""

    kind: Kind
    text: str
    name: str = ""
    head: str = ""
    body: str = ""


def items(text: str, where: str) -> list[Item]:
    """The parts of a C file in order; what is for C++ only is left out.

    Raises :class:`ModelError`, which names the file as ``where``, when braces or quotes do not match.
    """
    text = text.replace("\r\n", "\n").replace("\\\n", "")
    if _OTHER_SPELLING.search(text):
        raise _unsound(where, "it has trigraphs or digraphs, which no generator writes")
    if text[text.rfind("*/") + 1 :].count("/*") > _MOST_OPEN:
        raise _unsound(where, "a quote or comment is not closed")
    text = without_comments(_for_c(text, where))
    result: list[Item] = []
    start, depth, brace = 0, 0, -1
    for token in _TOKEN.finditer(text):
        word = token.group()
        if word in ('"', "'", "/*"):
            raise _unsound(where, "a quote or comment is not closed")
        if word.lstrip().startswith("#"):
            if depth == 0:
                if text[start : token.start()].strip():
                    raise _unsound(where, f"'{word.strip()[:40]}' stands within a declaration")
                result.append(Item("directive", word.strip()))
                start = token.end()
        elif word == "{":
            brace = token.start() if depth == 0 and brace < 0 else brace
            depth += 1
        elif word == "}":
            depth -= 1
            if depth < 0:
                raise _unsound(where, "a closing brace has no opening one")
            head = text[start:brace]
            if depth == 0 and _is_function(head):
                result.append(_function(head, text[brace : token.end()]))
                start, brace = token.end(), -1
        elif word == ";" and depth == 0:
            part = text[start : token.end()].strip()
            if part != ";":
                result.append(_declaration(part))
            start, brace = token.end(), -1
    if depth or text[start:].strip():
        raise _unsound(where, "it ends within a function or declaration")
    return result


def without_comments(text: str) -> str:
    """The text with a blank for each comment."""
    return _COMMENT.sub(lambda match: match.group(1) or " ", text)


def parameters(head: str) -> list[tuple[str, str]]:
    """Types and names of a function's parameters, from its text up to the body."""
    inner = head[head.index("(", _name(head).end() - 1) + 1 : head.rindex(")")]
    result = []
    for part in inner.split(","):
        match = re.fullmatch(r"\s*(.*?)\s*\b(\w+)\s*", part, re.DOTALL)
        if match is not None and match.group(1):
            result.append((re.sub(r"\s+", " ", match.group(1)).replace(" *", "*"), match.group(2)))
    return result


def _for_c(text: str, where: str) -> str:
    """The text without what a C compiler skips because of ``__cplusplus``."""
    lines = []
    # Each open conditional: is it about C++, and is the branch at hand one for C.
    open_: list[tuple[bool, bool]] = []
    for line in text.split("\n"):
        match = _CONDITIONAL.match(line) if "#" in line else None
        kept = all(for_c for _, for_c in open_)
        if match is None:
            if kept:
                lines.append(line)
            continue
        word, rest = match.groups()
        if word in ("if", "ifdef", "ifndef"):
            about = _PLUS_PLUS.search(f"def {rest}" if word != "if" else rest) is not None
            open_.append((about, (word == "ifndef" or "!" in rest) if about else True))
        elif not open_:
            raise _unsound(where, f"#{word} without an #if")
        elif word == "endif":
            about, _ = open_.pop()
        else:
            about, for_c = open_[-1]
            open_[-1] = (about, not for_c if about else True)
        if not about and kept:
            lines.append(line)
    if open_:
        raise _unsound(where, "an #if is not closed")
    return "\n".join(lines)


def _is_function(head: str) -> bool:
    plain = without_attributes(head).strip()
    return plain.endswith(")") and "=" not in plain


def without_attributes(text: str) -> str:
    """The text without GNU attributes."""
    return re.sub(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)", " ", text)


def _name(head: str) -> re.Match[str]:
    match = re.search(r"(\w+)\s*\(", without_attributes(head))
    # The match is of the text without attributes; callers want places in the text itself.
    found = re.search(rf"\b{match.group(1)}\s*\(", head) if match is not None else None
    if found is None:
        raise ModelError(f"'{head.strip()[:60]}' is no function this reader understands")
    return found


def _function(head: str, body: str) -> Item:
    name = _name(head).group().rstrip("(").strip()
    return Item("function", f"{head.strip()} {body}", name, head.strip(), body)


def _declaration(part: str) -> Item:
    plain = without_attributes(part)
    # Up to an initialiser, and without a structure's members.
    front = re.sub(r"\{.*\}", " ", plain.partition("=")[0], flags=re.DOTALL).rstrip("; \n")
    if front.endswith(")") and "=" not in plain and "typedef" not in plain:
        return Item("prototype", part, _name(part).group().rstrip("(").strip(), part.rstrip(";").strip())
    match = re.search(r"(\w+)\s*((?:\[[^\]]*\]\s*)*)$", front)
    is_type = plain.lstrip().startswith("typedef") or re.fullmatch(r"\s*(struct|union|enum)\b\s*\w*\s*", front)
    if is_type or match is None:
        return Item("type", part, match.group(1) if match is not None else "")
    return Item("data", part, match.group(1))


def _unsound(where: str, why: str) -> ModelError:
    return ModelError(f"{where}: the C text is not sound", why=why, hint="export the archive again")
