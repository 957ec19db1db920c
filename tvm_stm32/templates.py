"""Jinja2 as all text that is no page is made: an unknown name is an error, lines of control leave no trace.

Reading a template costs ten times what filling it does, so its code is kept: in the process, and as Python keeps its
own, in ``__pycache__`` beside the source.
"""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import Error
from .files import write_atomically

if TYPE_CHECKING:
    import jinja2

_kept: dict[Path, bytes] = {}


def text_templates(folder: Path, **filters: Callable[..., Any]) -> jinja2.Environment:
    """The templates of a folder, with filters of their own."""
    # Commands that make no text do without it.
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        # Filters of constants are not evaluated beforehand: kept code is that of the template alone.
        optimized=False,
        bytecode_cache=_code_cache(folder / "__pycache__"),
    )
    environment.filters.update(filters)
    return environment


def _code_cache(folder: Path) -> jinja2.BytecodeCache:
    """Where the code of a folder's templates is kept. Jinja2 checks the text it was made of, and the Python."""
    import jinja2
    from jinja2.bccache import Bucket

    class CodeCache(jinja2.BytecodeCache):
        def load_bytecode(self, bucket: Bucket) -> None:
            path = folder / _file_name(bucket.key)
            # Whatever a file holds that is none of ours, or half of one: the template is read anew.
            with contextlib.suppress(Exception):
                code = _kept.get(path) or path.read_bytes()
                bucket.bytecode_from_string(code)
                _kept[path] = code

        def dump_bytecode(self, bucket: Bucket) -> None:
            path = folder / _file_name(bucket.key)
            _kept[path] = code = bucket.bytecode_to_string()
            # A folder that cannot be written to costs time, no more.
            with contextlib.suppress(Error, OSError):
                if not sys.dont_write_bytecode:
                    folder.mkdir(exist_ok=True)
                    write_atomically({path: code})

    return CodeCache()


@functools.cache
def _file_name(key: str) -> str:
    from importlib.metadata import version

    return f"{key}.jinja2-{version('jinja2')}.{sys.implementation.cache_tag}"
