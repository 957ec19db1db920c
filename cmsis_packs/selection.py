"""Components chosen from several packs, and all files a build takes of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tvm_stm32.errors import PackError, quoted

from .conditions import Environment, Security
from .config_files import ConfigFile, target_of
from .model import Component, Device, File, Pack, Processor
from .resolve import resolve, select


@dataclass(frozen=True)
class Chosen:
    """Files of components by what a build does with them; paths are those of the extracted packs.

    ``configs`` belong to the project from the first build on (see :class:`ConfigFile`); ``header`` is the name by which
    code includes the device's header ("" when no pack says).
    """

    components: tuple[Component, ...]
    sources: tuple[Path, ...]
    include_folders: tuple[Path, ...]
    configs: tuple[ConfigFile, ...]
    libraries: tuple[Path, ...]
    linker_scripts: tuple[Path, ...]
    pre_includes: tuple[Path, ...]
    header: str = ""


def choose(
    packs: Sequence[tuple[Path, Pack]],
    device: Device,
    components: Sequence[str],
    *,
    processor: str = "",
    security: Security = "TZ-disabled",
    project: Path = Path("RTE"),
) -> Chosen:
    """What a build for ``device`` takes of ``packs`` (folder and description of each) for ``components``.

    A component is looked for in all packs; ``project`` is the folder that gets copies of config files. Raises
    :class:`PackError` naming the component when no pack has it, several do, or it lacks something.
    """
    _check_security(device.processor(processor), security)
    environment = Environment.of(device, processor=processor, security=security)
    owners = {text: _owner(packs, environment, text) for text in dict.fromkeys(components)}
    picked = {text: select(packs[owner][1], environment, text) for text, owner in owners.items()}
    folders: dict[str, dict[Path, None]] = {"sources": {}, "include": {}, "libraries": {}, "scripts": {}, "pre": {}}
    configs: dict[str, ConfigFile] = {}
    for number, (folder, pack) in enumerate(packs):
        mine = [text for text, owner in owners.items() if owner == number]
        others = tuple(picked[text] for text, owner in owners.items() if owner != number)
        if not mine and not pack.apis:
            continue
        found = resolve(
            pack, device, mine, processor=processor, security=security, others=others, known=[p for _, p in packs]
        )
        for key, files in (
            ("sources", found.sources), ("libraries", found.libraries),
            ("scripts", found.linker_scripts), ("pre", found.pre_includes),
        ):  # fmt: skip
            folders[key] |= dict.fromkeys(_existing(folder, file, pack) for file in files)
        folders["include"] |= dict.fromkeys(folder / path for path in found.include_folders)
        for file in found.config_files:
            config = _config(folder, file, pack, device, found.components, project)
            # Of names that differ in case some systems make one file.
            other = configs.setdefault(config.target.as_posix().casefold(), config)
            if other.source != config.source:
                raise PackError(
                    f"two config files are to be {quoted(config.target.as_posix())} of the project",
                    why=f"{other.source.name} of {other.pack} and {config.source.name} of {config.pack}, which differ",
                    hint="leave one of their components out",
                )
    cpu = device.processor(processor)
    return Chosen(
        components=tuple(picked.values()),
        sources=tuple(folders["sources"]),
        # Copies of config headers hide the pack's own.
        include_folders=tuple(dict.fromkeys([*_header_folders(configs.values()), *folders["include"]])),
        configs=tuple(configs.values()),
        libraries=tuple(folders["libraries"]),
        linker_scripts=tuple(folders["scripts"]),
        pre_includes=tuple(folders["pre"]),
        header=Path(cpu.header).name,
    )


def _check_security(cpu: Processor, security: str) -> None:
    if security not in get_args(Security):
        raise PackError(f"security is {quoted(security)}", hint="one of: " + ", ".join(get_args(Security)))
    if security != "TZ-disabled" and not cpu.trustzone:
        raise PackError(f"security is {security}, and the {cpu.core} of the device has no TrustZone")


def _owner(packs: Sequence[tuple[Path, Pack]], environment: Environment, text: str) -> int:
    """The number of the one pack that has a component for the device."""
    found, problems = [], []
    for number, (_, pack) in enumerate(packs):
        try:
            select(pack, environment, text)
            found.append(number)
        except PackError as error:
            problems.append(error)
    if len(found) > 1:
        raise PackError(
            f"component {quoted(text)} is in several packs",
            why=", ".join(str(packs[number][1]) for number in found),
            hint="put its vendor in front, Vendor::Class:Group",
        )
    if not found:
        # A pack that has it, but not for this device, knows most about it.
        likely = [error for error in problems if "has no component" not in error.message] or problems
        if not likely:
            raise PackError(f"no pack has the component {quoted(text)}", why="there are no packs")
        raise (
            likely[0]
            if len(likely) == 1
            else PackError(
                f"no pack has the component {quoted(text)}",
                why="looked for in " + ", ".join(str(pack) for _, pack in packs),
                hint=next((error.hint for error in likely if error.hint), ""),
            )
        )
    return found[0]


def _existing(folder: Path, file: File, pack: Pack) -> Path:
    path = folder / file.path
    if not path.is_file():
        raise PackError(f"{pack} has no file {quoted(file.path)}, which its description names", hint="packs verify")
    return path


def _config(
    folder: Path, file: File, pack: Pack, device: Device, components: Sequence[Component], project: Path
) -> ConfigFile:
    owner = next((c for c in components if file in c.files), None)
    # What depends on the device by its condition, as startup code does, is one file a device.
    specific = device.name if file.condition or (owner is not None and owner.condition) else ""
    target = target_of(project, owner.class_ if owner is not None else "Device", specific, Path(file.path).name)
    return ConfigFile(_existing(folder, file, pack), target, pack.version, f"{pack.vendor}::{pack.name}")


def _header_folders(configs: Iterable[ConfigFile]) -> list[Path]:
    headers = (config.target for config in configs if config.target.suffix.lower() in (".h", ".hpp", ".hh"))
    return list(dict.fromkeys(target.parent for target in headers))
