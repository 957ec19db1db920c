"""Relay text (version 0.0.5), Relay JSON (``tvm.ir.save_json``) and parameter files -> a :class:`Model`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from pathlib import Path

from ... import params as params_file
from ...errors import ModelError
from ...model import Model, Provenance
from . import json_module, parser
from .json_graph import NodeGraph
from .json_source import JsonSource
from .metadata import Metadata
from .source import Source
from .translate import translate


def load(path: Path, params: Path | None = None, input_shapes: Mapping[str, tuple[int, ...]] | None = None) -> Model:
    """Read a Relay module, its weights from ``params`` where they are parameters of ``@main``.

    ``input_shapes`` are shapes by input name for those the file leaves open; an open batch alone is 1 without one.
    Raises ``ModelError`` (``UnsupportedOperatorError`` for operators) naming file, line and column; in JSON the node.
    """
    try:
        data = path.read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise ModelError(f"{path.name}: cannot read the model", why=error.strerror or str(error)) from error
    except UnicodeDecodeError as error:
        raise ModelError(f"{path.name}: not a Relay text", why=f"byte {error.start} is not UTF-8") from error
    source: Source
    metadata: NodeGraph
    if path.suffix == ".json" or is_json(text):
        graph = JsonSource(path.name, text)
        source, module, metadata = graph, json_module.read(graph), graph.graph
    else:
        source = Source(path.name, text)
        module = parser.parse(source)
        metadata = Metadata(source, module.metadata_at)
    arrays = {} if params is None else params_file.load(params)
    result = translate(source, module, metadata, arrays, params.name if params else "", input_shapes)
    return Model(
        result.module,
        result.inputs,
        result.outputs,
        result.numerics,
        Provenance(path.name, hashlib.sha256(data).hexdigest(), "relay"),
        result.notes,
    )


def is_json(text: str) -> bool:
    """Whether a file's text is a JSON document rather than Relay text, in which nothing starts with these."""
    return re.match(r"\s*[\[{]\s*[\"{}\[\]]", text) is not None
