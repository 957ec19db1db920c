"""YAML files that people write, checked against a JSON schema."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from .errors import Error, TargetError

_LONGEST_FILE = 1 << 16


def read_checked(
    path: Path, what: str, schema: dict[str, Any], *, error: type[Error] = TargetError, longest: int = _LONGEST_FILE
) -> dict[str, Any]:
    """The content of a YAML file that fits ``schema`` and has at most ``longest`` bytes.

    Raises ``error`` naming the file and the key.
    """
    # Neither is needed for the host board, and a null build asks for no other.
    import jsonschema
    import yaml

    class Loader(yaml.SafeLoader):
        """Aliases are of no use here, and ten lines of them can stand for gigabytes."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases (*name) are not allowed")
            return super().compose_node(parent, index)

    try:
        if path.stat().st_size > longest:
            raise error(f"'{path}' is no {what}", why=f"it is larger than {longest:,} bytes")
        data = _integers(yaml.load(path.read_text(encoding="utf-8"), Loader))
    except (OSError, ValueError, RecursionError, yaml.YAMLError) as problem:
        raise error(f"cannot read {what} '{path}'", why=" ".join(str(problem).split())[:300]) from problem
    if not isinstance(data, dict):
        raise error(f"'{path}' is no {what}", why=f"it holds no keys, such as '{schema['required'][0]}: ...'")
    best = jsonschema.exceptions.best_match(jsonschema.Draft202012Validator(schema).iter_errors(data))
    if best is not None:
        # The message quotes the value, which may be the whole file.
        message = re.sub(r"(?s)^(.{150}).{50,}(.{150})$", r"\1 ... \2", best.message)
        raise error(f"{path}: {best.json_path.removeprefix('$').lstrip('.') or 'file'}: {message}")
    return data


def _integers(value: Any) -> Any:
    """``value`` with whole numbers written as 8.0 as integers, which the schema takes them for."""
    if isinstance(value, dict):
        return {key: _integers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_integers(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value
