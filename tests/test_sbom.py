"""The bill of materials: what is in it, that CycloneDX takes it, and that the same files make the same bytes."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from cmsis_packs.lock import Lock, LockedPack, lock_text
from cmsis_packs.names import parse_exact
from tvm_stm32 import __version__
from tvm_stm32.cli import cli
from tvm_stm32.errors import Error
from tvm_stm32.project.sbom import Parts, sbom_text

GCC = "GCC: (15:12.2.rel1-1) 12.2.1 20221205"
CLANG = "Debian clang version 14.0.6"


def elf(comments: list[str], machine: int = 40) -> bytes:
    """A 32-bit ELF file with nothing but ``.comment``."""
    names = b"\0.comment\0.shstrtab\0"
    comment = b"".join(text.encode() + b"\0" for text in comments)
    at = 52 + len(comment) + len(names)

    def words(*values: int) -> bytes:
        return b"".join(value.to_bytes(4, "little") for value in values)

    head = b"\x7fELF\1\1\1" + bytes(9) + (2).to_bytes(2, "little") + machine.to_bytes(2, "little")
    head += words(1, 0, 0, at, 0) + b"".join(v.to_bytes(2, "little") for v in (52, 0, 0, 40, 3, 2))
    sections = bytes(40) + words(1, 1, 0x30, 0, 52, len(comment), 0, 0, 1, 1)
    sections += words(10, 3, 0, 0, 52 + len(comment), len(names), 0, 0, 1, 0)
    return head + comment + names + sections


def report(name: str = "kws", **more: Any) -> dict[str, Any]:
    tensor = {"name": "x", "shape": [1, 49], "dtype": "int8", "scale": [0.5], "zero_point": [0]}
    memory = {"pools": [{"name": "arena", "bytes": 8, "alignment": 8, "limit": 0}], "buffers": []}
    return {
        "schema": 1,
        "tool": f"tvm-stm32 {__version__}",
        "packages": {"apache-tvm": "0.27.0.post1"},
        "network": name,
        "model": {"file": f"{name}.tflite", "sha256": "ab" * 32, "format": "tflite"},
        "settings": {"cpu": "cortex-m4", "level": "time"},
        "inputs": [tensor],
        "outputs": [tensor],
        **{key: [] for key in ("states", "float_operators", "c_library", "notes", "operators")},
        **dict.fromkeys(
            ("macs", "nominal_macs", "removed_channels", "constants_bytes", "arena_bytes", "peak_live_bytes"), 0
        ),
        "memory": {**memory, "peak": {"step": 0, "bytes": 0, "buffers": []}},
        **more,
    }


@pytest.fixture
def parts(tmp_path: Path) -> Parts:
    """A build's files: an image of two compilers, two networks, two packs, a library."""
    (tmp_path / "app.elf").write_bytes(elf([GCC, CLANG]))
    for name in ("kws", "vww"):
        (tmp_path / f"{name}_report.json").write_text(json.dumps(report(name)), encoding="utf-8")
    (tmp_path / "libc_nano.a").write_bytes(b"archive")
    (tmp_path / "app.map").write_text(
        f"Archive member included to satisfy reference by file (symbol)\n\n{tmp_path}/libc_nano.a(lib_a-memcpy.o)\n"
        f"                              main.o (memcpy)\n{tmp_path}/libc_nano.a(lib_a-memset.o)\n\n"
        f"Discarded input sections\n\n .text 0x0 {tmp_path}/absent.a(never.o)\n",
        encoding="utf-8",
    )
    locked = []
    for text, licence, source in (
        ("ARM::CMSIS@6.1.0", ("Apache-2.0",), "https://packs.invalid/ARM.CMSIS.6.1.0.pack"),
        ("Keil::STM32F4xx_DFP@2.17.1", ("Documents/LICENSE.txt",), "packs/Keil.STM32F4xx_DFP.2.17.1.pack"),
    ):
        pack, version = parse_exact(text)
        locked.append(LockedPack(pack, version, "cd" * 32, 9, source, licence, ("packs.yaml: x",)))
    (tmp_path / "packs.lock").write_text(lock_text(Lock((), (), tuple(locked))), encoding="utf-8")
    reports = (tmp_path / "kws_report.json", tmp_path / "vww_report.json")
    return Parts(tmp_path / "app.elf", "1.4.0", reports, tmp_path / "app.map", tmp_path / "packs.lock")


def document(parts: Parts, **variables: str) -> dict[str, Any]:
    return json.loads(sbom_text(parts, variables))


def components(made: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {part["name"]: part for part in made["components"]}


def test_everything_that_is_in_an_image_is_named(parts: Parts) -> None:
    made = document(parts)
    image = made["metadata"]["component"]
    assert (image["type"], image["name"], image["version"]) == ("firmware", "app.elf", "1.4.0")
    assert image["hashes"] == [{"alg": "SHA-256", "content": hashlib.sha256(parts.image.read_bytes()).hexdigest()}]
    found = components(made)
    assert set(found) == {
        "kws.tflite", "vww.tflite", "ai_runtime", "CMSIS", "STM32F4xx_DFP", "libc_nano.a", "tvm-stm32", "apache-tvm",
        "GCC", "Clang",
    }  # fmt: skip
    model = found["kws.tflite"]
    assert model["type"] == "machine-learning-model"
    assert model["hashes"][0]["content"] == "ab" * 32
    assert {"name": "tvm-stm32:settings:cpu", "value": "cortex-m4"} in model["properties"]
    assert model["modelCard"]["modelParameters"]["inputs"] == [{"format": "x: int8[1,49]"}]
    assert (found["tvm-stm32"]["version"], found["apache-tvm"]["version"]) == (__version__, "0.27.0.post1")
    assert (found["GCC"]["version"], found["GCC"]["description"]) == ("12.2.1", GCC)
    assert (found["Clang"]["version"], found["Clang"]["description"]) == ("14.0.6", CLANG)
    assert (found["CMSIS"]["group"], found["CMSIS"]["version"]) == ("ARM", "6.1.0")
    assert found["CMSIS"]["licenses"] == [{"expression": "Apache-2.0"}]
    assert found["CMSIS"]["externalReferences"][0]["url"].endswith("ARM.CMSIS.6.1.0.pack")
    assert found["STM32F4xx_DFP"]["licenses"] == [{"license": {"name": "Documents/LICENSE.txt"}}]
    assert found["libc_nano.a"]["hashes"][0]["content"] == hashlib.sha256(b"archive").hexdigest()
    tools = {"tvm-stm32", "apache-tvm", "GCC", "Clang"}
    assert {name for name, part in found.items() if part.get("scope") == "excluded"} == tools
    (inside,) = (entry["dependsOn"] for entry in made["dependencies"] if entry["ref"] == "image")
    assert set(inside) == {part["bom-ref"] for name, part in found.items() if name not in tools}


def test_the_document_keeps_the_schema_of_cyclonedx(parts: Parts) -> None:
    schemas = pytest.importorskip("cyclonedx.schema._res", reason="cyclonedx-python-lib is not installed")
    import jsonschema
    import referencing.jsonschema
    from cyclonedx.model.bom import Bom

    folder = Path(next(iter(schemas.__path__)))
    loaded = {path.name: json.loads(path.read_text("utf-8")) for path in folder.glob("*.schema.json")}
    # They name each other by their files.
    registry = referencing.Registry().with_resources(
        (name, referencing.jsonschema.DRAFT7.create_resource({**schema, "$id": name}))
        for name, schema in loaded.items()
        if not name.startswith("bom-") or "1.6" in name
    )
    validator = jsonschema.Draft7Validator({"$ref": "bom-1.6.SNAPSHOT.schema.json"}, registry=registry)
    for made in (document(parts, SOURCE_DATE_EPOCH="0"), document(Parts(parts.image))):
        assert [error.message for error in validator.iter_errors(made)] == []
        assert len(Bom.from_json(made).components) == len(made["components"])
    # The check can fail.
    assert list(validator.iter_errors({**document(parts), "components": [{"name": "no type"}]}))


def test_the_same_files_elsewhere_make_the_same_bytes(parts: Parts, tmp_path: Path) -> None:
    first = sbom_text(parts, {})
    again = Parts(parts.image, parts.version, parts.reports[::-1], parts.map_file, parts.lock)
    assert sbom_text(again, {"TZ": "Pacific/Auckland"}) == first
    assert str(tmp_path) not in first
    made = json.loads(first)
    assert "timestamp" not in made["metadata"]
    dated = document(parts, SOURCE_DATE_EPOCH="1700000000")
    assert dated["metadata"]["timestamp"] == "2023-11-14T22:13:20Z"
    parts.image.write_bytes(elf([GCC]))
    numbers = {made["serialNumber"], dated["serialNumber"], document(parts)["serialNumber"]}
    assert len(numbers) == 3


def test_only_the_packs_that_were_used(parts: Parts) -> None:
    chosen = Parts(parts.image, lock=parts.lock, packs=("ARM::CMSIS@6.1.0",))
    assert set(components(document(chosen))) == {"CMSIS", "GCC", "Clang"}


def test_programs_of_this_computer_and_files_that_are_no_elf(parts: Parts) -> None:
    parts.image.write_bytes(elf([GCC], machine=62))
    assert document(parts)["metadata"]["component"]["type"] == "application"
    parts.image.write_bytes(b"\x00\x00\x02\x20")
    made = document(parts)
    assert made["metadata"]["component"]["type"] == "firmware"
    assert "GCC" not in components(made)


def test_no_size_in_an_image_is_believed(parts: Parts) -> None:
    sound = elf([GCC])
    comment = int.from_bytes(sound[32:36], "little") + 40

    def compilers(words: dict[int, int]) -> int:
        image = bytearray(sound)
        for place, word in words.items():
            image[comment + place : comment + place + 4] = word.to_bytes(4, "little")
        parts.image.write_bytes(image)
        return sbom_text(Parts(parts.image), {}).count("compiler:GCC")

    assert compilers({}) > 0
    assert compilers({4: 8, 20: 0xFFFFFFFF}) == 0  # SHT_NOBITS
    assert compilers({8: 0x800}) == 0  # SHF_COMPRESSED


def test_mistakes_are_one_message(parts: Parts, tmp_path: Path) -> None:
    def message(parts: Parts, **variables: str) -> str:
        with pytest.raises(Error) as error:
            sbom_text(parts, variables)
        return str(error.value)

    assert "cannot read image" in message(Parts(tmp_path / "none.elf"))
    assert "second report of the network 'kws'" in message(Parts(parts.image, reports=parts.reports[:1] * 2))
    assert "is no network report" in message(Parts(parts.image, reports=(parts.image,)))
    assert "has no pack 'ARM::None@1.0.0'" in message(Parts(parts.image, lock=parts.lock, packs=("ARM::None@1.0.0",)))
    for text in ("yesterday", "-1", "99999999999", " 1"):
        assert "SOURCE_DATE_EPOCH is '" in message(Parts(parts.image), SOURCE_DATE_EPOCH=text)
    (tmp_path / "libc_nano.a").unlink()
    assert "libc_nano.a" in message(parts)
    parts.image.write_bytes(elf([GCC])[:60])
    assert f"image '{parts.image}' is not a sound ELF file" in message(Parts(parts.image))


def test_the_command_prints_or_writes_it(parts: Parts, tmp_path: Path) -> None:
    words = ["sbom", str(parts.image), "--report", str(parts.reports[0]), "--image-version", "2"]
    shown = CliRunner().invoke(cli, words, env={"SOURCE_DATE_EPOCH": ""})
    assert shown.exit_code == 0, shown.output
    target = tmp_path / "app.cdx.json"
    CliRunner().invoke(cli, [*words, "-o", str(target)], env={"SOURCE_DATE_EPOCH": ""}, catch_exceptions=False)
    assert target.read_text("utf-8") == shown.output
    assert json.loads(shown.output)["metadata"]["component"]["version"] == "2"


def test_a_pipe_is_no_image_or_report(tmp_path: Path, parts: Parts) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for changed in (replace(parts, image=pipe), replace(parts, reports=(pipe,)), replace(parts, map_file=pipe)):
        with pytest.raises(Error, match="plain file"):
            sbom_text(changed, {})
