"""Archives that lie, attack or are damaged: one clear error each, and nothing is written, run or swallowed whole."""

from __future__ import annotations

import gzip
import io
import json
import random
import tarfile
import time

import mlf_builder as mlf
import numpy as np
import pytest

from tvm_stm32.emit.emitter import render
from tvm_stm32.errors import Error, ModelError
from tvm_stm32.mlf import MlfOptions, archive, load_library
from tvm_stm32.target import Target

GRAPH = "executor-config/graph/default.graph"


def refusal(tmp_path, data):
    path = tmp_path / "bad.tar"
    path.write_bytes(data)
    before = sorted(tmp_path.rglob("*"))
    started = time.monotonic()
    with pytest.raises(ModelError) as caught:
        load_library(path, MlfOptions(Target("host")))
    assert time.monotonic() - started < 5
    assert sorted(tmp_path.rglob("*")) == before
    assert "bad.tar" in str(caught.value)
    return str(caught.value)


def with_member(name, kind=tarfile.REGTYPE, content=b"", link=""):
    stream = io.BytesIO(mlf.tar(mlf.small_members()))
    with tarfile.open(fileobj=stream, mode="a") as tar:
        info = tarfile.TarInfo(name)
        info.type, info.size, info.linkname = kind, len(content), link
        tar.addfile(info, io.BytesIO(content))
    return stream.getvalue()


@pytest.mark.parametrize(
    "name", ["../evil.c", "./a/../../evil", "/etc/passwd", "a\\..\\b", "C:/windows", "codegen/host/src/../x.c"]
)
def test_member_outside_the_archive(name, tmp_path):
    assert "points outside the archive" in refusal(tmp_path, with_member(name))


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize("name", ["src/relay.txt", "runtime/unused"])
def test_links(kind, name, tmp_path):
    assert "is a link" in refusal(tmp_path, with_member(name, kind, link="/etc/passwd"))


@pytest.mark.parametrize("kind", [tarfile.FIFOTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.GNUTYPE_SPARSE])
def test_devices_pipes_and_sparse_files(kind, tmp_path):
    message = refusal(tmp_path, with_member("src/x", kind))
    assert "is no ordinary file" in message or "not a readable tar" in message


@pytest.mark.parametrize("name", ["./metadata.json", "metadata.json", "././metadata.json"])
def test_member_that_is_there_twice(name, tmp_path):
    assert "is there twice" in refusal(tmp_path, with_member(name, content=b"{}"))


@pytest.mark.parametrize("length", [100, 600, 1500, 3000])
def test_cut_off_archive(length, tmp_path):
    message = refusal(tmp_path, mlf.tar(mlf.small_members())[:length])
    assert any(text in message for text in ("cut off", "not a readable tar"))


@pytest.mark.parametrize("size", [1 << 20, 1 << 32, (1 << 33) - 1])
def test_size_in_a_header_is_not_believed(size, tmp_path):
    info = tarfile.TarInfo("./parameters/default.params")
    info.size = size
    members = {name: text for name, text in mlf.small_members().items() if not name.startswith("parameters")}
    data = mlf.tar(members).rstrip(b"\0")
    data += bytes(-len(data) % 512) + info.tobuf(tarfile.GNU_FORMAT)
    message = refusal(tmp_path, data + bytes(1024))
    assert any(text in message for text in ("is cut off", "bytes", "not a readable tar"))


def test_negative_size(tmp_path):
    info = tarfile.TarInfo("./x")
    header = bytearray(info.tobuf(tarfile.GNU_FORMAT))
    header[124:136] = b"\xff" * 12
    header[148:156] = b" " * 8
    header[148:156] = f"{sum(header):06o}\0 ".encode()
    refusal(tmp_path, bytes(header) + bytes(1024))


def test_compressed_archives_are_not_unpacked(tmp_path):
    bomb = gzip.compress(bytes(1 << 24))
    assert "is compressed (gzip)" in refusal(tmp_path, bomb)


def test_too_many_members(tmp_path, monkeypatch):
    monkeypatch.setattr(archive, "MOST_MEMBERS", 3)
    assert "more than 3 members" in refusal(tmp_path, mlf.tar(mlf.small_members()))


def test_too_large(tmp_path, monkeypatch):
    data = mlf.tar(mlf.small_members())
    monkeypatch.setattr(archive, "LARGEST_MEMBER", 100)
    assert "at most 100" in refusal(tmp_path, data)
    monkeypatch.setattr(archive, "LARGEST_ARCHIVE", 1000)
    assert "larger than 1,000 bytes" in refusal(tmp_path, data)


def test_other_files(tmp_path):
    assert "not a readable tar" in refusal(tmp_path, b"hello" * 500)
    assert "empty" in refusal(tmp_path, bytes(10240))
    assert "no metadata.json" in refusal(tmp_path, mlf.tar({"a.txt": "x"}))


# -- JSON


def changed(document, path, value):
    """The document with the value at a path of keys replaced, or taken out when it is None."""
    copy = json.loads(json.dumps(document))
    place = copy
    for key in path[:-1]:
        place = place[key]
    if value is None:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return copy


MODULE = ("modules", "default")


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("version",), "7", "'version' is '7', not a whole number"),
        (("version",), True, "'version' is True"),
        (("version",), 8, "version 8"),
        (("version",), None, "has no 'version'"),
        (("modules",), [], "'modules' is no object"),
        (("modules",), {}, "has no modules"),
        ((*MODULE, "executors"), "graph", "'executors' is 'graph', not a list"),
        ((*MODULE, "executors"), ["vm"], "has no executor"),
        ((*MODULE, "memory"), 3, "'memory' is no object"),
        (
            (*MODULE, "memory", "functions", "operator_functions"),
            [{"function_name": 3, "workspace": []}],
            "not a string",
        ),
        ((*MODULE, "memory", "functions", "operator_functions"), [{"workspace": 1}], "not a list"),
    ],
)
def test_wrong_metadata(path, value, message, tmp_path):
    members = mlf.small_members()
    document = changed(json.loads(members["metadata.json"]), path, value)
    assert message in refusal(tmp_path, mlf.tar({**members, "metadata.json": json.dumps(document)}))


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (("nodes",), None, "has no 'nodes'"),
        (("nodes",), [], "has 0 nodes"),
        (("nodes", 2), 5, "node 2 is no object"),
        (("nodes", 2, "op"), "call", "of kind 'call'"),
        (("nodes", 2, "attrs"), None, "has no 'attrs'"),
        (("nodes", 2, "attrs", "func_name"), "tvmgen_default_none", "calls 'tvmgen_default_none', which is not"),
        (("nodes", 2, "attrs", "num_outputs"), "-1", "'num_outputs' is '-1'"),
        (("nodes", 2, "attrs", "num_outputs"), "99999999999999", "'num_outputs'"),
        (("nodes", 2, "inputs"), [[4, 0, 0]], "does not come before it"),
        (("nodes", 2, "inputs"), [[2, 0, 0]], "has a cycle or is damaged"),
        (("nodes", 2, "inputs"), [[0, 7, 0]], "output 7 of node 0"),
        (("nodes", 2, "inputs"), [[-1, 0, 0]], "output 0 of node -1"),
        (("nodes", 2, "inputs"), [0], "not [node, output, version]"),
        (("nodes", 4, "inputs"), [[3, 0, 0]], "hands 2 tensors over"),
        (("arg_nodes",), [0], "neither an operator nor in 'arg_nodes'"),
        (("arg_nodes",), [0, 1, 1], "names a node twice"),
        (("arg_nodes",), [0, 1, 2], "which is no input"),
        (("heads",), [], "has no outputs"),
        (("heads",), [[9, 0, 0]], "output 0 of node 9"),
        (("heads",), [[0, 0, 0]], ""),
        (("attrs", "shape"), None, "has no 'shape'"),
        (("attrs", "shape"), ["list_shape", []], "has 0 values"),
        (("attrs", "shape", 1, 0), [1, -4], "has the shape 1x-4"),
        (("attrs", "shape", 1, 0), [1 << 40], "fits the memory of a Cortex-M"),
        (("attrs", "shape", 1, 0), [10**400], "fits the memory of a Cortex-M"),
        (("attrs", "shape", 1, 0), [1.5], "extents are whole numbers"),
        (("attrs", "shape", 1, 1), [2, 2], "the parameter 'w' is float32 (4,)"),
        (("attrs", "shape", 1, 3), [5], "not of one tensor to one of its size"),
        (("attrs", "dltype", 1, 0), "float16", "element type 'float16'"),
        (("attrs", "dltype", 1, 0), {}, "element type {}"),
        (("attrs", "storage_id", 1, 0), "x", "has storage 'x'"),
    ],
)
def test_wrong_graph(path, value, message, tmp_path):
    members = mlf.small_members()
    data = mlf.tar({**members, GRAPH: json.dumps(changed(json.loads(members[GRAPH]), path, value))})
    if message:
        assert message in refusal(tmp_path, data)
    else:
        path = tmp_path / "odd.tar"
        path.write_bytes(data)
        assert load_library(path, MlfOptions(Target("host"))).output_tensors == ["x"]


@pytest.mark.parametrize("name", ["metadata.json", GRAPH])
@pytest.mark.parametrize(
    "text", [b"", b"{", b"\xff\xfe", b"[" * 100000, b'{"version": ' + b"9" * 5000 + b"}", b"null", b'"x"']
)
def test_json_that_is_none(name, text, tmp_path):
    assert name in refusal(tmp_path, mlf.tar({**mlf.small_members(), name: text}))


# -- C text and parameters

SOURCE = "codegen/host/src/default_lib1.c"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("  return 0;\n}", "  return 0;\n", "ends within a function"),
        ("  return 0;\n}", "  return 0;\n}}", "closing brace"),
        ("#endif", "", "an #if is not closed"),
        ("#ifdef __cplusplus", "", "#endif without an #if"),
        ('extern "C"', 'extern "C', ""),
        ("int32_t dev_id", '/* "int32_t dev_id', "not closed"),
        ("#include <math.h>", '#include "/etc/passwd"', "include '/etc/passwd', which is not in the archive"),
        ("#include <math.h>", "#include HEADER", "no plain file name"),
        ("  int32_t dev_id =", '#include "/etc/passwd"\n  int32_t dev_id =', "includes a file"),
        ("  int32_t dev_id =", '  __asm(".incbin \\"x\\"");\n  int32_t dev_id =', "includes a file"),
        ("#include <math.h>", '#inc\\\nlude "x.h"', "include 'x.h'"),
        ("#include <math.h>", '??=include "x.h"', "trigraphs"),
        ("  int32_t dev_id =", "  tvmgen_default_fused_add(0,0,0,0,0,0);\n  int32_t dev_id =", "call each other"),
    ],
)
def test_wrong_c_text(old, new, message, tmp_path):
    members = mlf.small_members()
    text = members[SOURCE]
    # In the last function only, so that the damage has one meaning.
    place = text.rindex(old)
    data = mlf.tar({**members, SOURCE: text[:place] + new + text[place + len(old) :]})
    if message:
        assert message in refusal(tmp_path, data)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not a parameter file"),
        (mlf.params({"w": mlf.WEIGHT})[:-3], "truncated"),
        (mlf.params({"w": mlf.WEIGHT.astype(np.float64)}), "the graph takes float32"),
        (mlf.params({"w": mlf.WEIGHT})[:16] + b"\xff" * 8, "it announces"),
    ],
)
def test_wrong_parameters(content, message, tmp_path):
    assert message in refusal(tmp_path, mlf.tar({**mlf.small_members(), "parameters/default.params": content}))


def test_parameter_files_that_may_be_meant(tmp_path):
    members = mlf.small_members()
    content = members.pop("parameters/default.params")
    data = mlf.tar({**members, "parameters/a.params": content, "parameters/b.params": content})
    assert "a.params, parameters/b.params" in refusal(tmp_path, data)


# -- random damage


def test_damaged_archives_give_errors_of_ours(tmp_path):
    data = mlf.tar(mlf.small_members())
    used = [place for place, byte in enumerate(data) if byte]
    path = tmp_path / "damaged.tar"
    read = 0
    for seed in range(120):
        generator = random.Random(seed)
        content = bytearray(data)
        for _ in range(generator.choice([1, 1, 2, 4])):
            place = generator.choice(used)
            content[place] = generator.choice([generator.randrange(256), content[place] ^ 1, ord("9"), ord("-")])
        # The checksum of a header is no protection: make it right again, so that damage to headers is seen.
        for start in range(0, len(content) - 512, 512):
            if content[start + 257 : start + 262] == b"ustar":
                header = content[start : start + 512]
                header[148:156] = b" " * 8
                content[start + 148 : start + 156] = f"{sum(header):06o}\0 ".encode()
        path.write_bytes(content)
        try:
            render(load_library(path, MlfOptions(Target("host"))))
            read += 1
        except Error:
            continue
    assert 10 < read < 110
