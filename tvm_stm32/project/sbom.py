"""What an image was made of, as a CycloneDX 1.6 document: models, runtime, packs, libraries, compiler, generator.

Everything is read from what a build leaves: the image (its sum, and ``.comment``, where compilers say their names),
reports of networks, the linker's map, packs.lock. The same files make the same bytes; a time is in it only when
``SOURCE_DATE_EPOCH`` says which.
"""

from __future__ import annotations

import datetime
import hashlib
import io
import json
import re
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .. import __version__
from ..emit.diff import read_report
from ..errors import Error, PackError, quoted
from ..resources import resource_dir

SPECIFICATION = "1.6"
EPOCH_VARIABLE = "SOURCE_DATE_EPOCH"
_NAMESPACE = uuid.UUID("f34b1d9c-21c6-5b7c-9b2e-0d7f4f0a7c11")
_LARGEST_IMAGE = 1 << 30
_MEMBER = re.compile(r"(\S.*\.a)\([^()]+\)")
_SPDX = re.compile(r"[A-Za-z0-9.+-]+(?: (?:AND|OR|WITH) [A-Za-z0-9.+-]+)*")
_LICENCE_FILE = re.compile(r"(?i)[/\\]|\.(txt|md|rtf|html?|pdf|docx?)$|^licen[cs]e$")

Component = dict[str, Any]


@dataclass(frozen=True)
class Parts:
    """Files that say what an image was made of.

    ``packs`` are the names of those of ``lock`` that went into it (``Vendor::Name@version``); none: all of them.
    """

    image: Path
    version: str = ""
    reports: tuple[Path, ...] = ()
    map_file: Path | None = None
    lock: Path | None = None
    packs: tuple[str, ...] = ()


def sbom_text(parts: Parts, variables: Mapping[str, str]) -> str:
    """The document. Raises :class:`Error` naming the file that cannot be read or is not what it should be."""
    image, compilers = _image(parts)
    models, tools, runtime = _networks(parts.reports)
    inside = [*models, *runtime, *_packs(parts), *_libraries(parts.map_file)]
    generators = [tool for tool in tools if tool["name"] == "tvm-stm32"]
    depends = {
        image["bom-ref"]: [part["bom-ref"] for part in inside],
        **{tool["bom-ref"]: [other["bom-ref"] for other in tools if other not in generators] for tool in generators},
    }
    components = [*inside, *tools, *compilers]
    document: dict[str, Any] = {
        "bomFormat": "CycloneDX",
        "specVersion": SPECIFICATION,
        "version": 1,
        "metadata": {
            **_timestamp(variables),
            "tools": {"components": [{"type": "application", "name": "tvm-stm32", "version": __version__}]},
            "component": image,
        },
        "components": components,
        "dependencies": [
            {"ref": part["bom-ref"], "dependsOn": depends.get(part["bom-ref"], [])} for part in (image, *components)
        ],
    }
    # A number of its own for other content, without chance in it.
    document["serialNumber"] = uuid.uuid5(_NAMESPACE, json.dumps(document, sort_keys=True)).urn
    return json.dumps(document, indent=2) + "\n"


def _timestamp(variables: Mapping[str, str]) -> dict[str, str]:
    text = variables.get(EPOCH_VARIABLE, "")
    if not text:
        return {}
    if not re.fullmatch(r"[0-9]{1,10}", text):
        raise Error(
            f"{EPOCH_VARIABLE} is {quoted(text)}",
            why="it is the time of the document",
            hint="seconds since 1970, or unset",
        )
    moment = datetime.datetime.fromtimestamp(int(text), datetime.timezone.utc)
    return {"timestamp": moment.strftime("%Y-%m-%dT%H:%M:%SZ")}


def _image(parts: Parts) -> tuple[Component, list[Component]]:
    """The image, and the compilers it says it was made by."""
    content = _read(parts.image, "image")
    machine, comments = _elf_facts(parts.image, content)
    image = {
        "type": "firmware" if machine in ("", "EM_ARM") else "application",
        "bom-ref": "image",
        "name": parts.image.name,
        **({"version": parts.version} if parts.version else {}),
        "hashes": _hashes(content),
    }
    return image, [_compiler(text) for text in comments]


def _elf_facts(path: Path, content: bytes) -> tuple[str, list[str]]:
    """The machine of an ELF file and the texts of ``.comment``; nothing of other files."""
    from elftools.common.exceptions import ELFError
    from elftools.elf.elffile import ELFFile

    if content[:4] != b"\x7fELF":
        return "", []
    try:
        elf = ELFFile(io.BytesIO(content))
        section = elf.get_section_by_name(".comment")
        # Linkers write it plainly; of one without content, or packed, only the size is known, and that may be any.
        if section is None or section["sh_type"] != "SHT_PROGBITS" or section.compressed:
            texts = []
        else:
            texts = section.data().split(b"\0")
        return str(elf["e_machine"]), sorted({text.decode("utf-8", "replace") for text in texts if text})
    except (ELFError, UnicodeDecodeError, OverflowError) as error:
        raise Error(f"image '{path}' is not a sound ELF file", why=str(error), hint="link it again") from error


def _compiler(text: str) -> Component:
    found = re.fullmatch(r"GCC: \(.*\) (\S+).*", text)
    name = "GCC"
    if found is None:
        found, name = re.match(r".*clang version (\S+)", text), "Clang"
    facts = {"name": name, "version": found[1]} if found else {"name": text}
    return {"type": "application", "bom-ref": f"compiler:{text}", **facts, "description": text, "scope": "excluded"}


def _networks(paths: tuple[Path, ...]) -> tuple[list[Component], list[Component], list[Component]]:
    """Models, the tools that made C of them, and the runtime they run on."""
    models: dict[str, Component] = {}
    tools: dict[str, Component] = {}
    for path in paths:
        facts = read_report(path)
        network = facts["network"]
        if network in models:
            raise Error(f"'{path}' is a second report of the network '{network}'", hint="give each report once")
        models[network] = _model(facts)
        for package, version in (facts["tool"].rpartition(" ")[::2], *sorted(facts.get("packages", {}).items())):
            tool = _package(package, version)
            tools[tool["bom-ref"]] = tool
    return (
        [models[name] for name in sorted(models)],
        [tools[ref] for ref in sorted(tools)],
        _runtime() if models else [],
    )


def _model(facts: dict[str, Any]) -> Component:
    """A model as it was read: its file's name and sum, and as what it runs."""
    pairs = {"network": facts["network"], "format": facts["model"]["format"]}
    pairs |= {f"settings:{key}": str(value) for key, value in facts["settings"].items()}
    return {
        "type": "machine-learning-model",
        "bom-ref": f"model:{facts['network']}",
        "name": facts["model"]["file"],
        "hashes": [{"alg": "SHA-256", "content": facts["model"]["sha256"]}],
        "modelCard": {
            "modelParameters": {
                key: [
                    {"format": f"{tensor['name']}: {tensor['dtype']}[{','.join(map(str, tensor['shape']))}]"}
                    for tensor in facts[key]
                ]
                for key in ("inputs", "outputs")
            }
        },
        "properties": [{"name": f"tvm-stm32:{name}", "value": value} for name, value in sorted(pairs.items())],
    }


def _package(name: str, version: str) -> Component:
    purl = f"pkg:pypi/{name}@{version}"
    facts = {"name": name, "version": version, "purl": purl, "scope": "excluded"}
    return {"type": "application", "bom-ref": purl, **facts, "licenses": [{"license": {"id": "Apache-2.0"}}]}


def _runtime() -> list[Component]:
    header = (resource_dir("runtime") / "include" / "ai_runtime.h").read_text(encoding="utf-8")
    found = re.search(r'#define AI_RUNTIME_API_VERSION "([^"]+)"', header)
    assert found is not None
    return [
        {
            "type": "library",
            "bom-ref": "runtime",
            "name": "ai_runtime",
            "version": found[1],
            "description": f"C runtime of tvm-stm32 {__version__}",
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        }
    ]


def _packs(parts: Parts) -> Iterator[Component]:
    """CMSIS packs, with what the lock says of them."""
    if parts.lock is None:
        return
    from cmsis_packs.lock import read_lock

    locked = {str(item): item for item in read_lock(parts.lock).packs}
    for name in sorted(parts.packs or locked):
        if name not in locked:
            raise PackError(f"{parts.lock} has no pack '{name}'", hint=", ".join(sorted(locked)))
        item = locked[name]
        vendor, _, short = str(item.pack).partition("::")
        component = {
            "type": "library",
            "bom-ref": f"pack:{name}",
            "group": vendor,
            "name": short,
            "version": item.version,
            "description": "CMSIS pack",
            "hashes": [{"alg": "SHA-256", "content": item.sha256}],
        }
        if item.licence:
            component["licenses"] = _licences(item.licence)
        if item.source.startswith(("http://", "https://")):
            component["externalReferences"] = [{"type": "distribution", "url": item.source}]
        yield component


def _licences(names: tuple[str, ...]) -> list[dict[str, Any]]:
    """A lock has names of SPDX, or of the pack's files."""
    if len(names) == 1 and _SPDX.fullmatch(names[0]) and not _LICENCE_FILE.search(names[0]):
        return [{"expression": names[0]}]
    return [{"license": {"name": name}} for name in names]


def _libraries(map_file: Path | None) -> Iterator[Component]:
    """Archives of which the linker took members, by its map: the C library, the compiler's, the project's."""
    if map_file is None:
        return
    text = _read(map_file, "map").decode("utf-8", "replace")
    head = re.split(r"(?m)^(?:Discarded input sections|Memory Configuration)", text, maxsplit=1)[0]
    paths = {found[1] for line in head.splitlines() if (found := _MEMBER.fullmatch(line.strip()))}
    known = set()
    for path in sorted(map(Path, paths), key=lambda path: (path.name, str(path))):
        digest = _hashes(_read(path, "library"))
        key = (path.name, digest[0]["content"])
        if key not in known:
            known.add(key)
            reference = f"library:{path.name}:{key[1][:16]}"
            yield {"type": "library", "bom-ref": reference, "name": path.name, "hashes": digest}


def _hashes(content: bytes) -> list[dict[str, str]]:
    return [{"alg": "SHA-256", "content": hashlib.sha256(content).hexdigest()}]


def _read(path: Path, what: str) -> bytes:
    try:
        if path.exists() and not path.is_file():
            raise Error(f"{what} '{path}' is no plain file", hint="check the path")
        if path.stat().st_size > _LARGEST_IMAGE:
            raise Error(f"{what} '{path}' is larger than {_LARGEST_IMAGE:,} bytes", hint="check the path")
        return path.read_bytes()
    except OSError as error:
        raise Error(
            f"cannot read {what} '{path}': {error.strerror or error}", hint="build it first, or check the path"
        ) from error
