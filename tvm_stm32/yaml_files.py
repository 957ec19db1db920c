"""YAML files that people write, checked against a JSON schema."""

from __future__ import annotations

import difflib
import re
from pathlib import Path
from typing import Any

from .errors import Error, TargetError, quoted

_LONGEST_FILE = 1 << 16
_MOST_BITS = 64


def read_checked(
    path: Path,
    what: str,
    schema: dict[str, Any] | None,
    *,
    error: type[Error] = TargetError,
    longest: int = _LONGEST_FILE,
) -> dict[str, Any]:
    """The content of a YAML file that fits ``schema``, if there is one, and has at most ``longest`` bytes.

    Raises ``error`` naming the file and the key.
    """
    # Not needed for the host board, and a null build asks for no other.
    import yaml

    class Loader(yaml.SafeLoader):
        """Aliases are of no use here, and ten lines of them can stand for gigabytes."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases (*name) are not allowed")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            # PyYAML takes the last of two equal keys, and says nothing.
            keys = [key.value for key, _ in node.value]
            if twice := next((key for key in keys if keys.count(key) > 1), None):
                raise yaml.YAMLError(f"the key '{twice}' is there twice (line {node.start_mark.line + 1})")
            return super().construct_mapping(node, deep)

    try:
        if path.stat().st_size > longest:
            raise error(f"'{path}' is no {what}", why=f"it is larger than {longest:,} bytes")
        data = _checked_numbers(yaml.load(path.read_text(encoding="utf-8"), Loader))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as problem:
        raise error(f"cannot read {what} '{path}'", why=" ".join(str(problem).split())[:300]) from problem
    if not isinstance(data, dict):
        example = f", such as '{schema['required'][0]}: ...'" if schema is not None else ""
        raise error(f"'{path}' is no {what}", why=f"it holds no keys{example}")
    if schema is None:
        return data
    import jsonschema

    best = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(data))
    if best is not None:
        raise error(f"{path}: {best.json_path.removeprefix('$').lstrip('.') or 'file'}: {_message(best)}")
    return data


def _message(problem: Any) -> str:
    """What is wrong, for people: what the schema calls right instead of a pattern, and the keys there are."""
    if problem.validator == "additionalProperties":
        known = sorted(problem.schema["properties"])
        key = next(str(key) for key in problem.instance if key not in known)
        close = difflib.get_close_matches(key, known, 1)
        return f"unknown key {quoted(key)}" + (f": {close[0]}?" if close else "; one of: " + ", ".join(known))
    whole = problem.parent if problem.parent is not None and problem.parent.validator == "oneOf" else problem
    if whole.validator in ("oneOf", "pattern") and "description" in whole.schema:
        return f"{quoted(str(whole.instance))} is wrong here: {whole.schema['description']}"
    # The message quotes the value, which may be the whole file.
    return re.sub(r"(?s)^(.{150}).{50,}(.{100})$", r"\1 ... \2", problem.message)


def _checked_numbers(value: Any) -> Any:
    """``value`` with whole numbers written as 8.0 as integers, which the schema takes them for.

    Raises ValueError for integers nothing needs, which cost as much to print as they are long.
    """
    if isinstance(value, dict):
        return {key: _checked_numbers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_checked_numbers(item) for item in value]
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        raise ValueError(f"a number has more than {_MOST_BITS} bits")
    whole = isinstance(value, float) and value.is_integer() and abs(value) < 1 << _MOST_BITS
    return int(value) if whole else value
