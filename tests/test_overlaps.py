"""Results that lie over inputs: distances hold byte by byte, and nothing reads memory the plan calls free.

The oracle: after each operator every byte of the arena that no live buffer has is overwritten, and the outputs must
still be those of a run without.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from kernels.test_bands import chain_network, whole_chains
from support import MLPERF_TINY, ROOT, random_bytes, shared

from tvm_stm32.compiler import CompileOptions, compile_loaded, compile_model
from tvm_stm32.emit import emit
from tvm_stm32.kernels import network, overlap
from tvm_stm32.library import Library
from tvm_stm32.memory.lifetimes import placed
from tvm_stm32.target import Target

RUNTIME = ROOT / "runtime"

DRIVER = """
#include <stdio.h>
#include <string.h>
#include "zoo.h"

static const unsigned spans[][3] = {{ {spans} }};
static _Alignas(32) uint8_t arena[AI_ZOO_ACTIVATIONS_SIZE + 32];
static const unsigned outputs[][2] = {{ {outputs} }};
static int poison;

/* What an operator has made. */
static void print_sum(const unsigned place[2])
{{
    uint32_t sum = 2166136261U;
    unsigned i;
    for (i = 0; i < place[1]; i++) {{
        sum = (sum ^ arena[place[0] + i]) * 16777619U;
    }}
    printf("%08lx\\n", (unsigned long)sum);
}}

static void after(void *cookie, const ai_node_event *event)
{{
    unsigned i;
    (void)cookie;
    if (event->phase == AI_NODE_STOP) {{
        print_sum(outputs[event->index]);
    }} else if (event->index > 0) {{
        return;
    }}
    for (i = 0; i < sizeof spans / sizeof spans[0]; i++) {{
        if (poison && spans[i][0] == event->index + (event->phase == AI_NODE_STOP ? 1U : 0U)) {{
            memset(arena + spans[i][1], 0x5A + (int)event->index, spans[i][2]);
        }}
    }}
}}

int main(int argc, char **argv)
{{
    ai_handle handle;
    uint32_t i;
    poison = argc > 1;
    (void)argv;
    if (ai_create(&ai_zoo_network, arena, &handle) != AI_STATUS_OK) {{
        return 2;
    }}
    if (ai_set_observer(handle, after, NULL) != AI_STATUS_OK) {{
        return 3;
    }}
    for (i = 0; i < ai_get_input_size(handle); i++) {{
        ai_tensor *input = ai_get_input(handle, i);
        if (fread(input->data, 1, ai_get_tensor_size(input), stdin) != ai_get_tensor_size(input)) {{
            return 4;
        }}
    }}
    if (ai_run(handle) != AI_STATUS_OK) {{
        return 5;
    }}
    for (i = 0; i < ai_get_output_size(handle); i++) {{
        ai_tensor *output = ai_get_output(handle, i);
        fwrite(output->data, 1, ai_get_tensor_size(output), stdout);
    }}
    return 0;
}}
"""


def free_spans(library: Library, early: int = 0) -> list[tuple[int, int, int]]:
    """(step, start, bytes) of what is free when a step begins: what it neither reads nor keeps for later ones.

    ``early`` frees buffers so many steps before their last use.
    """
    spans = []
    buffers = placed(library)
    for step in range(len(library.calls) + 1):
        live = sorted((b.offset, b.offset + b.size) for b in buffers if b.first < step <= b.last - early)
        end = 0
        for start, stop in [*live, (library.arena_size, library.arena_size)]:
            if start > end:
                spans.append((step, end, start - end))
            end = max(end, stop)
    return spans


def outputs_with_and_without(library: Library, data: bytes, folder: Path, early: int = 0) -> tuple[bytes, bytes]:
    """What the network gives, sums of all its operators' results first, without and with poison."""
    emit(library, folder)
    spans = ", ".join(f"{{{step}, {start}, {size}}}" for step, start, size in free_spans(library, early))
    made = [library.tensors[call.outputs[0]] for call in library.calls]
    outputs = ", ".join(f"{{{tensor.offset}, {tensor.size}}}" for tensor in made)
    (folder / "driver.c").write_text(DRIVER.format(spans=spans or "{~0U, 0, 0}", outputs=outputs))
    sources = [folder / "driver.c", folder / "zoo.c", folder / "zoo_data.c", *sorted((RUNTIME / "src").glob("*.c"))]
    command = ["cc", "-O1", "-std=c11", "-DAI_OBSERVER=1", f"-I{folder}", f"-I{RUNTIME / 'include'}"]
    subprocess.run([*command, *map(str, sources), "-lm", "-o", str(folder / "driver")], check=True)
    return tuple(
        subprocess.run([folder / "driver", *flag], input=data, stdout=subprocess.PIPE, check=True).stdout
        for flag in ([], ["poison"])
    )


@pytest.mark.parametrize("core", ["host", "cortex-m4"])
@pytest.mark.parametrize("model", ["kws_ref_model", "pretrainedResnet_quant", "vww_96_int8"])
def test_networks_do_not_read_what_is_free(model, core, tmp_path):
    path = shared(MLPERF_TINY / f"{model}.tflite")
    options = CompileOptions(Target.for_cpu(core), level="ram", name="zoo", kernels="c")
    library = compile_model(path, options)
    assert library.arena_size < sum(tensor.size for tensor in library.tensors.values())
    if (model, core) == ("kws_ref_model", "cortex-m4"):
        # Depthwise layers whose results take exactly their inputs' places.
        shared_places = [buffer for buffer in placed(library) if len(buffer.tensors) > 1]
        assert len(shared_places) == sum(bool(call.same_place) for call in library.calls) == 4
    data = random_bytes(np.random.default_rng(3), library.inputs[0].shape).tobytes()
    alone, poisoned = outputs_with_and_without(library, data, tmp_path)
    assert alone == poisoned and len(alone) > 0


@pytest.mark.parametrize("core", ["host", "cortex-m3", "cortex-m4"])
def test_random_chains_do_not_read_what_is_free(core, tmp_path, monkeypatch):
    model = chain_network(np.random.default_rng(11), 6)
    data = b"".join(random_bytes(np.random.default_rng(4), info.shape).tobytes() for info in model.inputs)
    results = []
    for banded in (False, True):
        monkeypatch.setattr(network, "sums_behind_convolutions", whole_chains if banded else lambda _: [])
        library = compile_loaded(model, CompileOptions(Target.for_cpu(core), name="zoo", kernels="c"))
        folder = tmp_path / str(banded)
        folder.mkdir()
        results += outputs_with_and_without(library, data, folder)
    assert results[0] == results[1] and results[2] == results[3]
    size = sum(int(np.prod(info.shape)) for info in model.outputs)
    assert results[0][-size:] == results[2][-size:]


def test_a_poisoned_live_byte_is_noticed(tmp_path):
    """The oracle itself: a plan that frees too early gives other outputs."""
    path = shared(MLPERF_TINY / "kws_ref_model.tflite")
    library = compile_model(path, CompileOptions(Target.for_cpu("host"), name="zoo", kernels="c"))
    data = random_bytes(np.random.default_rng(3), library.inputs[0].shape).tobytes()
    alone, poisoned = outputs_with_and_without(library, data, tmp_path, early=1)
    assert alone != poisoned


def geometry(generator: np.random.Generator, *, strides: bool = True) -> dict[str, int]:
    kernel = [int(n) for n in generator.integers(1, 5, 2)]
    pads = [int(generator.integers(0, size)) for size in kernel]
    height, width = (int(generator.integers(size, size + 9)) for size in kernel)
    stride = [int(n) for n in generator.integers(1, 4, 2)] if strides else [1, 1]
    return {
        "batch": 1,
        "height": height,
        "width": width,
        "channels_in": int(generator.integers(1, 5)),
        "channels": int(generator.integers(1, 5)),
        "kernel_h": kernel[0],
        "kernel_w": kernel[1],
        "stride_h": stride[0],
        "stride_w": stride[1],
        "pad_top": pads[0],
        "pad_left": pads[1],
        "out_h": (height + pads[0] + int(generator.integers(0, kernel[0])) - kernel[0]) // stride[0] + 1,
        "out_w": (width + pads[1] + int(generator.integers(0, kernel[1])) - kernel[1]) // stride[1] + 1,
    }


def window(g: dict[str, int], oy: int, ox: int) -> list[int]:
    """First byte of each input pixel an output pixel looks at."""
    found = []
    for ky in range(g["kernel_h"]):
        for kx in range(g["kernel_w"]):
            y, x = oy * g["stride_h"] - g["pad_top"] + ky, ox * g["stride_w"] - g["pad_left"] + kx
            if 0 <= y < g["height"] and 0 <= x < g["width"]:
                found.append((y * g["width"] + x) * g["channels_in"])
    return found


def simulated(g: dict[str, int], steps: list[list[tuple[int, int]]], distance: int, *, buffered: bool) -> bool:
    """Whether every input byte is still there when a step reads it, the result ``distance`` bytes below the input."""
    overwritten: set[int] = set()
    for pixels in steps:
        for part in [pixels] if buffered else [[pixel] for pixel in pixels]:
            reads = {byte + c for oy, ox in part for byte in window(g, oy, ox) for c in range(g["channels_in"])}
            writes = {
                (oy * g["out_w"] + ox) * g["channels"] + c - distance for oy, ox in part for c in range(g["channels"])
            }
            if not buffered:
                # Writes of a pixel may come before its reads.
                overwritten |= writes
            if reads & overwritten:
                return False
            overwritten |= writes
    return True


@pytest.mark.parametrize("seed", range(150))
def test_distances_hold_byte_by_byte_and_are_the_least(seed):
    generator = np.random.default_rng(seed)
    g = geometry(generator)
    at_once, buffered = int(generator.integers(1, 6)), bool(generator.random() < 0.6)
    pixels = [(oy, ox) for oy in range(g["out_h"]) for ox in range(g["out_w"])]
    steps = [pixels[start : start + at_once] for start in range(0, len(pixels), at_once)]
    if not buffered:
        steps = [[pixel] for pixel in pixels]
        at_once = 1
    found = overlap.pixel_distance(g, at_once, buffered=buffered)
    assert found is not None and simulated(g, steps, found, buffered=buffered)
    if found and not any(not window(g, *pixel) for pixel in pixels):
        assert not simulated(g, steps, found - 1, buffered=buffered)


@pytest.mark.parametrize("seed", range(60))
def test_row_and_patch_distances_hold_byte_by_byte(seed):
    generator = np.random.default_rng(seed)
    g = geometry(generator)
    found = overlap.row_distance(g)
    assert found is not None
    overwritten: set[int] = set()
    copied: set[int] = set()
    row = g["width"] * g["channels_in"]
    for oy in range(g["out_h"]):
        for y in range(oy * g["stride_h"] - g["pad_top"], oy * g["stride_h"] - g["pad_top"] + g["kernel_h"]):
            if 0 <= y < g["height"] and y not in copied:
                copied.add(y)
                assert not overwritten & set(range(y * row, (y + 1) * row))
        size = g["out_w"] * g["channels"]
        overwritten |= {oy * size + i - found for i in range(size)}
    g = geometry(generator, strides=False)
    rows, columns = (int(generator.integers(1, g[key] + 1)) for key in ("out_h", "out_w"))
    found = overlap.patch_distance(g, rows, columns)
    steps = [
        [(min(y, g["out_h"] - rows) + i, min(x, g["out_w"] - columns) + j) for i in range(rows) for j in range(columns)]
        for y in range(0, g["out_h"], rows)
        for x in range(0, g["out_w"], columns)
    ]
    assert found is not None and simulated(g, steps, found, buffered=True)
