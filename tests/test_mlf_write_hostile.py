"""Archives that claim to be this tool's own: what they say is checked, and text in them stays text in the C."""

from __future__ import annotations

import copy
import hashlib
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import ROOT, build_and_run
from test_mlf_write import edited, own, packed_samples, read, written
from test_state import accumulator

from tvm_stm32 import params
from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.emit.emitter import render
from tvm_stm32.emit.page import html_page
from tvm_stm32.errors import Error, ModelError
from tvm_stm32.library import Library
from tvm_stm32.mlf import archive_cpu
from tvm_stm32.mlf.write import archive_bytes
from tvm_stm32.target import Target

MODEL = ROOT / "examples" / "digits" / "digits_int8.onnx"


@pytest.fixture(scope="module")
def digits() -> Library:
    return compile_model(MODEL, CompileOptions(Target.for_cpu("host"), name="net"))


@pytest.fixture(scope="module")
def sum_network() -> Library:
    return compile_loaded(accumulator(), CompileOptions(Target.for_cpu("host"), name="net"))


def attempt(library: Library, change: Callable[[Any], None], folder: Path) -> str:
    """What is said of the library's archive with its document changed."""
    path = folder / "bad.tar"
    path.write_bytes(edited(written(library, folder), own(lambda own: change(own["library"]))))
    with pytest.raises(ModelError) as caught:
        read(path)
    assert str(caught.value).startswith("bad.tar: ")
    return str(caught.value)


def put(*path: Any, value: Any) -> Callable[[Any], None]:
    """Sets the place at a path; a number chooses an item of a list or a key of an object by its order."""

    def change(document):
        for key in path[:-1]:
            document = document[key if not isinstance(key, int) or isinstance(document, list) else [*document][key]]
        last = path[-1]
        document[last if not isinstance(last, int) or isinstance(document, list) else [*document][last]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("name", value="Net"), "is no C name of a network"),
        (put("name", value="net\n"), "is no C name of a network"),
        (put("name", value="while"), "is no C name of a network"),
        (put("name", value="other"), "has no C name of the network 'other'"),
        (put("provenance", "sha256", value='0"; int evil = 0; //'), "no sha256"),
        (put("settings", "cpu", value="cortex-m99"), "the CPU 'cortex-m99' is unknown"),
        (put("settings", "level", value="*/ int evil; /*"), "cannot stand in a comment"),
        (put("settings", "x\n#include <evil.h>", value=""), "cannot stand in a comment"),
        (put("settings", value={}), "the CPU '' is unknown"),
        (put("arena_size", value=1 << 40), "the arena has"),
        (put("arena_size", value=-1), "the arena has -1"),
        (put("arena_size", value=10**30), "arena_size"),
        (put("arena_size", value=64), "lies outside the arena"),
        (put("arena_alignment", value=3), "alignment is 3"),
        (put("tensors", "block/depthwise", "offset", value=1 << 20), "outside the arena"),
        (put("tensors", "block/depthwise", "offset", value=-1), "outside the arena"),
        (put("tensors", "image", "offset", value=8), "is not where 'image' has it"),
        (put("tensors", "image", "offset", value=-7), "lies at -7"),
        (put("tensors", "image", "offset", value="here"), "tensors.image.offset"),
        (put("tensors", "image", "shape", value=[1 << 31] * 40), "fits no memory"),
        (put("tensors", "image", "shape", value=[-64]), "fits no memory"),
        (put("tensors", "image", "shape", value=[10**30]), "shape"),
        (put("tensors", "image", "dtype", value="float16"), "element type 'float16'"),
        (put("tensors", "image", "dtype", value="float32"), "overlap|one place|another type or size|outside"),
        (put("tensors", "image", "name", value="x"), "is called 'x'"),
        (put("input_tensors", 0, value="nothing"), "there is no tensor 'nothing'"),
        (put("output_tensors", value=[]), "1 outputs and 0 tensors"),
        (put("inputs", 0, "dtype", value="uint8"), "of another type or size than its tensor"),
        (put("inputs", 0, "shape", value=[1 << 31] * 3), "fits no memory"),
        (put("inputs", 0, "quantization", "scale", value=[]), "0 scales and 1 zero points"),
        (put("inputs", 0, "quantization", "scale", value=["nan"]), "no float"),
        (put("inputs", 0, "quantization", "zero_point", value=[1 << 40]), "beyond 32 bits"),
        (
            put("inputs", 0, "quantization", value={"scale": [1.0, 1.0], "zero_point": [0, 0], "axis": 9}),
            "2 scales for axis 9",
        ),
        (put("calls", 0, "kernel", value="system"), "which is no kernel"),
        (put("calls", 0, "inputs", value=["nothing"]), "there is no tensor 'nothing'"),
        (put("calls", 0, "inputs", value=[]), "neither its input nor its output"),
        (put("calls", 0, "outputs", value=[]), "has no output"),
        (put("calls", 0, "arguments", value=[]), "hands 0 arguments"),
        (put("calls", 0, "arguments", 0, "ctype", value="int32_t"), "hands 'int32_t' over"),
        (put("calls", 0, "arguments", 0, "ctype", value="evil *"), r"hands 'evil \*' over"),
        (put("calls", 0, "arguments", 0, "kind", value="file"), r"arguments\[0\]\.kind"),
        (put("calls", 0, "arguments", 1, "name", value="secret"), "there is no constant 'secret'"),
        (put("calls", 0, "workspace_offset", value=1 << 30), "lies outside the arena"),
        (put("calls", 0, "workspace_offset", value=-1), "lies outside the arena"),
        (put("calls", 0, "workspace", value=0), "hands a workspace over and has none"),
        (put("calls", 0, "workspace", value=-8), "no size"),
        (put("calls", 0, "macs", value=-1), "no size"),
        (put("calls", 0, "overlaps", value={"scores": 0}), "none of its inputs"),
        (put("calls", 1, "overlaps", value={"stem/conv": -8}), "at a distance that is no size"),
        (put("calls", 0, "same_place", value="scores"), "in the place of 'scores', which is none of its inputs"),
        (put("calls", 1, "same_place", value="stem/conv"), "is not where 'stem/conv' is, whose place it takes"),
        (put("calls", 1, "inputs", value=["scores_softmax"]), "before anything has written it|neither its input"),
        (put("calls", value=[]), "nothing writes the output"),
        (put("kernels", 0, "name", value="evil"), "has no C name"),
        (put("kernels", 0, "source", value="static void other(void)\n{\n}\n"), "not 0"),
        (put("kernels", 0, "source", value='#include "/etc/passwd"\n'), "include '/etc/passwd'"),
        (put("kernels", 0, "source", value='static const char x[] = {\n#include "/etc/passwd"\n};'), "includes a file"),
        (put("kernels", 0, "source", value='static const char x[] = {\n#embed "/etc/passwd"\n};'), "includes a file"),
        (put("kernels", 0, "source", value='__asm__(".incbin \\"/etc/passwd\\"");'), "includes a file"),
        (put("kernels", 0, "source", value="void net_x(void) {"), "ends within a function"),
        (put("kernels", 0, "source", value="/* a comment that swallows the rest"), "not closed"),
        (put("kernels", 0, "headers", value=['x.h"\n#include "/etc/passwd']), "the runtime has no such file"),
        (put("kernels", 0, "libm", value=["exp(x);"]), "whose name is none"),
        (put("kernels", 0, "workspace", value=-1), "bytes of workspace"),
        (put("constants", 0, "name", value="evil[1]; int x"), "has no C name"),
        (
            put("constants", 0, "data", value={"parameter": "none", "dtype": "int8", "shape": [1]}),
            "not among the param",
        ),
        (put("constants", 0, "data", "dtype", value="int16"), "in the metadata and"),
        (put("constants", 0, "data", "shape", value=[1 << 31]), "in the metadata and"),
        (put("external", value=["block/depthwise"]), "has no place in the arena"),
        (put("weights", value="https://evil"), "weights"),
        (put("notes", value=["\ud800"]), "is no text"),
        (put("notes", value="x"), "notes"),
    ],
)
def test_what_an_archive_says_is_checked(change, message, digits, tmp_path):
    assert re.search(message, attempt(digits, change, tmp_path))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (put("states", 0, "tensor", value="nothing"), "there is no tensor 'nothing'"),
        (put("states", 0, "initial", value=1 << 40), "does not fit its type"),
        (put("states", 0, "initial", value="inf"), "does not fit its type"),
        (put("states", 0, "initial", value="x"), "initial"),
        (put("aliases", value={"x": "history", "history": "x"}), "part of itself"),
        (put("aliases", value={"x": "nothing"}), "is no tensor"),
        (put("aliases", value={"x": "second"}), "is not where 'second' has it"),
        (put("alias_offsets", value={"x": 4}), "no part of"),
    ],
)
def test_variables_and_aliases_are_checked(change, message, sum_network, tmp_path):
    assert re.search(message, attempt(sum_network, change, tmp_path))


def test_tensors_in_use_together_may_not_overlap(sum_network, tmp_path):
    places = {name: tensor.offset for name, tensor in sum_network.tensors.items()}
    change = put("tensors", "second", "offset", value=places["first"])
    assert "in one place at one time" in attempt(sum_network, change, tmp_path)


def test_constants_are_those_of_the_parameters(digits, tmp_path):
    """Whoever changes an archive can make its digests right."""

    def change(content):
        name = "parameters/net.params"
        arrays = params.read(content[name], name)
        del arrays[next(iter(arrays))]
        content[name] = params.write(arrays)
        own(lambda own: own["digests"].update({name: hashlib.sha256(content[name]).hexdigest()}))(content)

    path = tmp_path / "bad.tar"
    path.write_bytes(edited(written(digits, tmp_path), change))
    with pytest.raises(ModelError, match="is not among the parameters"):
        read(path)


HOSTILE = (
    "*/ #error evil /*",
    "x\n#error evil",
    '"; int evil(void) { return 0; } char *y = "',
    "\\\n#error evil",
    "??/\n#error evil",
    "// \r\n#error evil",
    "\x00\x1b[31m\u2028",
    "{{ 7 * 7 }} {% raw %}",
    "é" * 300,
)


@pytest.mark.parametrize("text", HOSTILE)
def test_text_stays_text_in_the_c(text, digits, sum_network, tmp_path):
    def change(document):
        document["provenance"]["file_name"] = document["provenance"]["source_format"] = text
        document["notes"] = document["float_operators"] = [text]
        for call in document["calls"]:
            call["node"] = call["operator"] = call["detail"] = text
        for info in (*document["inputs"], *document["outputs"], *document["states"]):
            info["name"] = text
        old, new = next(iter(document["tensors"])), f"{text}!"
        renamed = json.dumps(document).replace(f'"name": {json.dumps(old)}', f'"name": {json.dumps(new)}')
        renamed = renamed.replace(f"{json.dumps(old)}: {{", f"{json.dumps(new)}: {{")
        renamed = re.sub(rf"(?<=[\[ ]){re.escape(json.dumps(old))}(?=[,\]])", lambda _: json.dumps(new), renamed)
        document.update(json.loads(renamed))
        document["tensors"].pop(old, None)

    for number, library in enumerate((digits, sum_network)):
        path = tmp_path / "odd.tar"
        path.write_bytes(edited(written(library, tmp_path), own(lambda own: change(own["library"]))))
        restored = read(path)
        assert restored.calls[0].node == text
        build_and_run(restored, "host", packed_samples(library, 1), tmp_path / str(number))
        texts = render(restored)
        assert "{{" not in text or "{{ 7 * 7 }}" in texts[".c"]
        html_page(restored)
        # Once more through an archive: the header and C of that quote it, too.
        assert render(read(written(restored, tmp_path))) == texts


# -- random damage

_VALUES = (
    None,
    True,
    -1,
    0,
    1,
    7,
    1 << 31,
    1 << 70,
    0.5,
    1e300,
    "",
    "x",
    "*/",
    "net_x",
    "int8",
    "nan",
    [],
    {},
    [0],
    [[]],
)


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every container of a document with each of its keys."""
    found = []
    open_ = [document]
    while open_:
        container = open_.pop()
        keys = container if isinstance(container, dict) else range(len(container))
        for key in keys:
            found.append((container, key))
            if isinstance(container[key], (dict, list)):
                open_.append(container[key])
    return found


def damaged(document: Any, generator: random.Random) -> Any:
    """A copy of a document with one to three places changed."""
    result = copy.deepcopy(document)
    for _ in range(generator.choice((1, 1, 1, 2, 3))):
        container, key = generator.choice(places(result))
        other, other_key = generator.choice(places(result))
        action = generator.randrange(6)
        if action == 0:
            del container[key]
        elif action == 1:
            container[key] = copy.deepcopy(other[other_key])
        elif action == 2 and isinstance(container, dict):
            container[generator.choice(("x", "net_x", "", "name"))] = container.pop(key)
        elif action == 3 and isinstance(container[key], int):
            container[key] += generator.choice((-1, 1, 8, -8, 1 << 20))
        elif action == 4 and isinstance(container[key], str) and container[key]:
            place = generator.randrange(len(container[key]))
            container[key] = container[key][:place] + generator.choice('\0\n*/"{};#\\a0') + container[key][place + 1 :]
        else:
            container[key] = copy.deepcopy(generator.choice(_VALUES))
    return result


def survive(path: Path) -> str:
    """Read, and render what could be read: an error of ours, or none. Returns which of them."""
    try:
        archive_cpu(path)
        library = read(path)
    except Error:
        return "refused"
    render(library)
    html_page(library)
    archive_bytes(library)
    return "plain" if any(note.startswith("read as ") for note in library.notes) else "read"


def fuzz_documents(library: Library, seeds: range, folder: Path) -> list[str]:
    """What becomes of archives whose document is damaged."""
    results = []
    base = written(library, folder)
    document: list[Any] = []
    edited(base, own(lambda own: document.append(copy.deepcopy(own))))
    path = folder / "damaged.tar"
    for seed in seeds:
        generator = random.Random(seed)
        changed = damaged(document[0], generator)
        path.write_bytes(edited(base, own(lambda own, changed=changed: (own.clear(), own.update(changed)))))
        try:
            results.append(survive(path))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    return results


def fuzz_bytes(library: Library, seeds: range, folder: Path) -> list[str]:
    """What becomes of archives with some bytes changed, half of them in the metadata."""
    data = archive_bytes(library)
    start = data.index(b'{\n "version"')
    inside = range(start, data.index(b"\0", start))
    used = [place for place, byte in enumerate(data) if byte]
    path = folder / "damaged.tar"
    results = []
    for seed in seeds:
        generator = random.Random(seed)
        content = bytearray(data)
        for _ in range(generator.choice([1, 1, 2, 4])):
            place = generator.choice(used) if seed % 2 else generator.choice(inside)
            content[place] = generator.choice([generator.randrange(256), content[place] ^ 1, ord("9"), ord("-")])
        for header in range(0, len(content) - 512, 512):
            if content[header + 257 : header + 262] == b"ustar":
                block = content[header : header + 512]
                block[148:156] = b" " * 8
                content[header + 148 : header + 156] = f"{sum(block):06o}\0 ".encode()
        path.write_bytes(content)
        try:
            results.append(survive(path))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error!r}") from error
    return results


@pytest.mark.parametrize("fuzz", [fuzz_documents, fuzz_bytes])
def test_damaged_archives_give_errors_of_ours(fuzz, digits, sum_network, tmp_path):
    for library in (digits, sum_network):
        results = fuzz(library, range(120), tmp_path)
        assert results.count("refused") > 20
        assert results.count("read") + results.count("plain") > 5
