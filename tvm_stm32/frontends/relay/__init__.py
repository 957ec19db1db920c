"""Relay text (version 0.0.5, with its metadata section) and parameter files -> :class:`tvm_stm32.model.Model`."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ...errors import ModelError
from ...model import Model, Provenance
from . import params as params_file
from . import parser
from .metadata import Metadata
from .source import Source
from .translate import translate


def load(path: Path, params: Path | None = None) -> Model:
    """Read a Relay module, its weights from ``params`` where they are parameters of ``@main``.

    Raises ``ModelError`` (``UnsupportedOperatorError`` for operators) naming file, line and column.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise ModelError(f"{path.name}: cannot read the model", why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path.name}: not a Relay text", why=f"byte {error.start} is not UTF-8") from error
    source = Source(path.name, text)
    module = parser.parse(source)
    metadata = Metadata(source, module.metadata_at)
    arrays = {} if params is None else params_file.load(params)
    result = translate(source, module, metadata, arrays, params.name if params else "")
    return Model(
        result.module,
        result.inputs,
        result.outputs,
        result.numerics,
        Provenance(path.name, hashlib.sha256(data).hexdigest(), "relay"),
        result.notes,
    )
