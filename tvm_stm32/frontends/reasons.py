"""What an importer's exception says, in one line for people."""

from __future__ import annotations

import re

_LONGEST = 300
# A Relax operator printed with all its documentation.
_PRINTED_OPERATOR = re.compile(r'ir\.Op\(.*?name="([\w.]+)".*')
# Python's own errors: the importer took something for granted that the file does not hold.
_SURPRISES = (TypeError, AttributeError, LookupError, AssertionError, ZeroDivisionError, OverflowError)


def reason(error: BaseException) -> str:
    """The error's text on one line, without the places in C++ sources, or what it means when it is one of Python's."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("==>", "File ", "Traceback"))] or lines
    text = " ".join(lines) if len(lines) <= 6 else lines[-1]
    text = _PRINTED_OPERATOR.sub(r"\1", text)
    text = f"{text[:_LONGEST]}..." if len(text) > _LONGEST else text
    if isinstance(error, _SURPRISES) and type(error).__module__ == "builtins":
        detail = f"{type(error).__name__}: {text}" if text else type(error).__name__
        return f"the importer expects other inputs, options or data ({detail})"
    return text or type(error).__name__
