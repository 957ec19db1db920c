"""Jinja2 as all text that is no page is made: an unknown name is an error, lines of control leave no trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import jinja2


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
    )
    environment.filters.update(filters)
    return environment
