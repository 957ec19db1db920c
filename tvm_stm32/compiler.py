"""From a model file to a planned Library: the whole compile, the only place that imports TVM on purpose."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from .choices import ALIGNMENTS
from .cnames import check_arena_name, network_name
from .errors import CapacityError, Error, ModelError, quoted
from .library import ARENA_SECTION, Library, Pool
from .limits import ADDRESSES
from .model import Model
from .target import Target

TENSORS = 255


@dataclass(frozen=True)
class CompileOptions:
    """What a compile depends on besides the model; part of the generated files' provenance.

    ``module`` and ``storage`` (``planned`` or ``archive``) are about Model Library Format archives. ``weights``:
    see :class:`Library`; ``external_io`` names inputs and outputs (``all``: every one) that the application places;
    ``alignment`` is that of the arena and everything in it, in bytes. ``kernels`` says what inner kernels are written
    in: ``asm`` (GNU assembly) or ``c``; ``forms`` sets the form of operators' kernels by node (or ``#number``);
    ``max_ram`` is what the arena may have, in bytes (0: no limit). ``pools`` are the memories there are (none: one
    arena), ``pins`` says in which some tensors or constants have to lie; ``shared_arena``: see :class:`Library`.
    ``archive_pools``: the pools are those of a Model Library Format archive's build.
    """

    target: Target
    level: str = "time"
    name: str = ""
    input_layout: str = "file"
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    module: str = ""
    storage: str = "planned"
    weights: str = "array"
    external_io: tuple[str, ...] = ()
    alignment: int = 8
    kernels: str = "asm"
    forms: Mapping[str, str] = field(default_factory=dict)
    max_ram: int = 0
    pools: Sequence[Pool] = ()
    pins: Mapping[str, str] = field(default_factory=dict)
    shared_arena: str = ""
    archive_pools: bool = False

    def settings(self) -> dict[str, str]:
        """Settings as shown in generated files."""
        settings = {"cpu": self.target.cpu, "level": self.level}
        if self.kernels != "asm":
            settings["kernels"] = self.kernels
        for node, form in sorted(self.forms.items()):
            settings[f"set:{node}"] = form
        if self.max_ram:
            settings["max-ram"] = str(self.max_ram)
        if self.input_layout != "file":
            settings["input-layout"] = self.input_layout
        for name, shape in sorted(self.input_shapes.items()):
            settings[f"input-shape:{name}"] = ",".join(str(extent) for extent in shape)
        if self.weights != "array":
            settings["weights"] = self.weights
        if self.external_io:
            settings["external-io"] = ",".join(self.external_io)
        if self.alignment != 8:
            settings["alignment"] = str(self.alignment)
        settings |= _pool_settings(self.pools, self.pins)
        if self.shared_arena:
            settings["shared-arena"] = self.shared_arena
        return settings


def compile_model(path: Path, options: CompileOptions, params: Path | None = None) -> Library:
    """Read a model file and compile it. Raises the errors of :mod:`tvm_stm32.errors`."""
    # TVM prints notes of its own on stderr at import and while it lowers; none helps a user of this tool.
    os.environ.setdefault("TVM_LOG_DEBUG", "")
    from .frontends import detect_format, load_model

    # A bad name is reported before anything is read.
    network_name(options.name or path.stem)
    with _naming(path.name):
        if detect_format(path) == "mlf":
            return _library_of_archive(path, options, params)
        if options.module or options.storage != "planned":
            raise ModelError(
                f"--module and --storage go with a Model Library Format archive, and '{path.name}' is none",
                hint="leave them out",
            )
        model = load_model(path, params, options.input_shapes)
    return compile_loaded(model, options)


def _library_of_archive(path: Path, options: CompileOptions, params: Path | None) -> Library:
    from . import memory
    from .mlf import MlfOptions, archive_pins, archive_pools, load_library

    given = {
        "--params": params is not None,
        "--input-shape": bool(options.input_shapes),
        "--input-layout": options.input_layout != "file",
        "--set": bool(options.forms),
        "--kernels": options.kernels != "asm",
        "--max-ram": bool(options.max_ram),
        "--external-io": bool(options.external_io),
        "--alignment": options.alignment != 8,
        "--pools and --storage archive": options.storage != "planned" and bool(options.pools or options.archive_pools),
    }
    for option in (name for name, is_given in given.items() if is_given):
        raise ModelError(
            f"{option} goes with a model, and '{path.name}' is a Model Library Format archive",
            why="its kernels are compiled for their weights, shapes and layouts",
            hint=f"leave {option} out",
        )
    pooled = bool(options.pools) or options.archive_pools
    library = load_library(path, MlfOptions(options.target, options.name, options.module, options.storage, pooled))
    if options.weights != "array":  # an archive of this tool says itself where weights go
        library.weights = options.weights
    if pooled:
        library.pools = archive_pools(library) if options.archive_pools else [replace(pool) for pool in options.pools]
        library.settings.update(_pool_settings(library.pools, options.pins))
        memory.plan(library, {**archive_pins(library), **options.pins})
        library.notes += memory.pool_notes(library)
    _check_addresses(library)
    _share_arena(library, options.shared_arena)
    return library


def _pool_settings(pools: Sequence[Pool], pins: Mapping[str, str]) -> dict[str, str]:
    if not pools:
        return {}
    names = ",".join(
        pool.name + (f":{pool.size}" if pool.size else "") + f"@{pool.read_cycles:g}/{pool.write_cycles:g}"
        for pool in pools
    )
    return {"pools": names, **{f"pin:{name}": pool for name, pool in sorted(pins.items())}}


def compile_loaded(model: Model, options: CompileOptions) -> Library:
    """Prepare a model, choose kernels, plan memory. Raises the errors of :mod:`tvm_stm32.errors`."""
    from . import graph, memory
    from .graph import layout
    from .kernels.network import NetworkBuilder
    from .ram_search import fitting, smallest

    file_name = model.provenance.file_name
    name = network_name(options.name or Path(file_name).stem)
    with _naming(file_name):
        if options.alignment not in ALIGNMENTS:
            raise Error(f"alignment {options.alignment} is none of {ALIGNMENTS}")
        if options.input_layout == "nhwc" and model.provenance.source_format == "tflite":
            raise ModelError(
                f"--input-layout nhwc turns NCHW inputs, and {file_name} is a TFLite model, whose inputs are NHWC",
                hint="leave it out",
            )
        if options.input_layout == "nhwc":
            model = layout.nhwc_inputs(model)
        module = graph.prepare(model, options.target)
        if options.archive_pools:
            raise ModelError(
                "--pools archive goes with a Model Library Format archive", hint="board, or a file of pools"
            )
        searched = "--max-ram" if options.max_ram else "-O ram" if options.level == "ram" else ""
        numbers = [node for node in options.forms if node.startswith("#")]
        if searched and numbers:
            raise Error(
                f"--set {numbers[0]} goes by a number, and {searched} changes those",
                hint="set the form by the operator's name, or the end of it",
            )

        def built(level: str) -> tuple[NetworkBuilder, Library]:
            builder = NetworkBuilder(
                module, model, options.target, name, level, options.settings(), options.kernels, options.forms
            )
            return builder, _finished(builder.build(), options)

        builder, library = built(options.level)
        if options.max_ram:
            try:
                library = fitting(builder, library, options.max_ram)
            except CapacityError as error:
                if options.level == "ram":
                    raise
                # Kernels that suit less RAM are another place to start from.
                try:
                    library = fitting(*built("ram"), options.max_ram)
                except CapacityError as other:
                    raise min(error, other, key=lambda e: e.least) from None
            library = _finished(library, options)
        elif options.level == "ram":
            library = _finished(smallest(builder, library), options)
    library.pools = [replace(pool) for pool in options.pools]
    memory.plan(library, options.pins)
    library.notes += memory.pool_notes(library)
    _check_addresses(library)
    _share_arena(library, options.shared_arena)
    return library


def _share_arena(library: Library, name: str) -> None:
    """Make the library's arena one that other networks use, too."""
    if not name:
        return
    check_arena_name(name, "--shared-arena")
    arena = library.arena_pool
    if arena is not None and arena.section not in ("", ARENA_SECTION):
        raise Error(
            f"--shared-arena: the arena is the pool {arena.name} of --pools, which has a section of its own",
            hint="leave one of both out, or make the first pool one without a section",
        )
    if library.states:
        raise ModelError(
            f"{library.provenance.file_name} cannot share its arena",
            why=f"it keeps variables from run to run there ({quoted(library.states[0].name)})",
            hint="leave it out of the group",
        )
    if any(constant.offset >= 0 and not constant.pool for constant in library.constants.values()):
        raise ModelError(
            f"{library.provenance.file_name} cannot share its arena",
            why="copies of constants lie there",
            hint="let another pool hold constants",
        )
    library.shared_arena = name


def _finished(library: Library, options: CompileOptions) -> Library:
    """With what planning depends on besides the network."""
    library.weights, library.arena_alignment = options.weights, options.alignment
    library.external = _external(library, options.external_io)
    return library


def _external(library: Library, names: tuple[str, ...]) -> list[str]:
    """The tensors of the inputs and outputs called so."""
    tensors = {
        info.name: tensor
        for info, tensor in zip(
            [*library.inputs, *library.outputs], [*library.input_tensors, *library.output_tensors], strict=True
        )
    }
    for name in names:
        if name != "all" and name not in tensors:
            raise ModelError(
                f"--external-io: {library.provenance.file_name} has no input or output {quoted(name)}",
                hint="its inputs and outputs: " + ", ".join(quoted(known) for known in tensors),
            )
    return [tensor for name, tensor in tensors.items() if "all" in names or name in names]


def _check_addresses(library: Library) -> None:
    if library.arena_size > ADDRESSES:
        raise CapacityError(
            f"{library.provenance.file_name} needs {library.arena_size:,} bytes of RAM",
            why="a Cortex-M addresses 4 GB, half of it at most RAM",
        )
    for kind, names in (("inputs", library.input_tensors), ("outputs", library.output_tensors)):
        if len(names) > TENSORS:
            raise CapacityError(
                f"{library.provenance.file_name} has {len(names):,} {kind}",
                why=f"the ai_* API counts them in a byte, up to {TENSORS}",
                hint="join some of them in the model",
            )


@contextlib.contextmanager
def _naming(file_name: str) -> Iterator[None]:
    """Errors of the block name the file."""
    try:
        yield
    except Error as error:
        named = error.about(file_name)
        if named is error:
            raise
        raise named from error
    except RecursionError as error:
        raise ModelError(
            f"{file_name}: a chain of operators is too long",
            why="operators on single elements are compiled into one expression, and this one is nested too deep",
            hint="put an operator that is no elementwise one, such as a pooling, between them",
        ) from error
