"""Runs the C of a Model Library Format archive on this computer, knowing its interface header and nothing else."""

from __future__ import annotations

import re
import subprocess
import tarfile
from pathlib import Path

import pytest
from support import need_board

DRIVER = """#include "tvmgen_{module}.h"
#include <stdio.h>
{buffers}
int main(void)
{{
    struct tvmgen_{module}_inputs inputs = {{ {inputs} }};
    struct tvmgen_{module}_outputs outputs = {{ {outputs} }};
    for (;;) {{
{reads}
        if (tvmgen_{module}_run(&inputs, &outputs) != 0) {{ return 3; }}
{writes}
    }}
}}
"""
FLAGS = ("-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")


def unpack(archive: Path, folder: Path) -> None:
    """The archive's members as files."""
    with tarfile.open(archive) as tar:
        # Python 3.10 and 3.11 have it from some patch release on; the archive is our own.
        tar.extractall(folder, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))


def members(header: str, kind: str) -> list[str]:
    """Pointers of the structure of inputs or outputs, in order."""
    body = re.search(rf"struct tvmgen_\w+_{kind} \{{(.*?)\n\}};", header, re.DOTALL)
    return re.findall(r"\*\s*(\w+);", body.group(1)) if body else []


def run_archive(archive: Path, module: str, samples: list[bytes], folder: Path) -> list[bytes]:
    """Outputs of each sample (inputs in order, packed), from a program with the archive's files alone."""
    need_board("host")
    unpack(archive, folder)
    header = (folder / f"codegen/host/include/tvmgen_{module}.h").read_text()
    ins, outs = members(header, "inputs"), members(header, "outputs")
    size = f"TVMGEN_{module.upper()}_{{}}_SIZE"
    sizes = {name: size.format(name.upper()) for name in (*ins, *outs)}
    text = DRIVER.format(
        module=module,
        buffers="\n".join(f"static long long b_{name}[{sizes[name]} / 8 + 1];" for name in (*ins, *outs)),
        inputs=", ".join(f".{name} = b_{name}" for name in ins) or "0",
        outputs=", ".join(f".{name} = b_{name}" for name in outs),
        reads="\n".join(f"        if (fread(b_{name}, {sizes[name]}, 1, stdin) != 1) {{ return 0; }}" for name in ins),
        writes="\n".join(f"        (void)fwrite(b_{name}, {sizes[name]}, 1, stdout);" for name in outs),
    )
    (folder / "driver.c").write_text(text)
    sources = [str(folder / "driver.c"), *map(str, sorted((folder / "codegen/host/src").glob("*.c")))]
    includes = [f"-I{folder / 'codegen/host/include'}", f"-I{folder / 'runtime/include'}"]
    program = folder / "driver"
    done = subprocess.run(["cc", *FLAGS, *includes, *sources, "-o", program, "-lm"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    done = subprocess.run([program], input=b"".join(samples), capture_output=True, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    total = len(done.stdout)
    if not samples or total % len(samples):
        pytest.fail(f"{total} bytes for {len(samples)} samples")
    step = total // len(samples)
    return [done.stdout[start : start + step] for start in range(0, total, step)]
