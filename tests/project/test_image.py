"""Linked images: what makes one startable, what its bytes are spent on, and what does not fit."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from firmware_support import build_fake, build_program

from tvm_stm32.boards import load_board
from tvm_stm32.errors import CapacityError, FirmwareError, TargetError, ToolchainError
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.image import Image, check_image, image_sizes
from tvm_stm32.project.linker import linker_script
from tvm_stm32.toolchain import find_gcc, run_tool

M4 = load_board("stm32f405")
M55 = load_board("mps3-an547")

CCM = ".ccm 0x10000000 : { *(.ccm) } AT > FLASH\n"

# A start-up of its own, for images that are wrong on purpose.
VECTORS = """
extern unsigned int __stack_top[];
void Reset_Handler(void);
void other(void);
void other(void) { for (;;) { } }
void Reset_Handler(void) { other(); for (;;) { } }
__attribute__((used, section(".isr_vector"))) const void *const vectors[16] = {STACK, RESET, FAULT, FAULT};
"""
GOOD = {"STACK": "__stack_top", "RESET": "(const void *)Reset_Handler", "FAULT": "(const void *)other"}


def link(folder: Path, source: str, script: str, *flags: str) -> Path:
    (folder / "image.ld").write_text(script, encoding="utf-8")
    (folder / "image.c").write_text(source, encoding="utf-8")
    elf = folder / "image.elf"
    done = run_tool(
        [find_gcc(), *M4.target.compile_flags, "-O1", "-nostdlib", *flags, folder / "image.c", "-T",
         folder / "image.ld", "-o", elf]
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return elf


def startup(**changes: str) -> str:
    text = VECTORS
    for word, value in {**GOOD, **changes}.items():
        text = re.sub(rf"\b{word}\b", value, text)
    return text


def test_a_good_image_passes(tmp_path: Path) -> None:
    check_image(link(tmp_path, startup(), linker_script(M4)), M4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"STACK": "(const void *)0x10000000"}, r"initial stack pointer 0x10000000 is not an aligned address in SRAM"),
        ({"STACK": "(const void *)0x20000404"}, r"initial stack pointer 0x20000404"),
        ({"RESET": "(const void *)0x08000040"}, r"reset vector 0x08000040 has no Thumb bit"),
        ({"RESET": "(const void *)0x20000001"}, r"reset vector 0x20000001 is outside FLASH"),
        ({"RESET": "(const void *)other"}, r"reset vector 0x[0-9a-f]{8} is not the entry 0x[0-9a-f]{8}"),
        ({"FAULT": "(const void *)0x20000001"}, r"exception vector 2 is 0x20000001"),
    ],
)
def test_a_wrong_vector_is_named(changes: dict[str, str], message: str, tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match=message):
        check_image(link(tmp_path, startup(**changes), linker_script(M4)), M4)


def without_asserts(script: str) -> str:
    return "\n".join(line for line in script.splitlines() if not line.startswith("ASSERT"))


def test_a_missing_vector_table_is_named(tmp_path: Path) -> None:
    elf = link(tmp_path, startup().replace(".isr_vector", ".rodata.vectors"), without_asserts(linker_script(M4)))
    with pytest.raises(FirmwareError, match=r"(no vector table|stack pointer)"):
        check_image(elf, M4)


def test_an_empty_vector_table_is_named(tmp_path: Path) -> None:
    source = '__attribute__((used, section(".isr_vector"))) const int v[16] = {0};\nvoid Reset_Handler(void) { }\n'
    with pytest.raises(FirmwareError, match=r"no vector table at the start of FLASH \(0x08000000\)"):
        check_image(link(tmp_path, source, linker_script(M4)), M4)


def test_a_program_without_startup_does_not_link(tmp_path: Path) -> None:
    with pytest.raises(FirmwareError, match="vector table"):
        build_program("void Reset_Handler(void);\nvoid Reset_Handler(void) { }\n", M4, tmp_path, runtime=False)
    assert not (tmp_path / "program.elf").exists()


def test_a_vector_table_elsewhere_is_named(tmp_path: Path) -> None:
    script = linker_script(M4).replace("ORIGIN = 0x08000000", "ORIGIN = 0x08004000")
    with pytest.raises(FirmwareError, match=r"no vector table at the start of FLASH \(0x08000000\)"):
        check_image(link(tmp_path, startup(), script), M4)


def test_a_section_outside_the_memories_is_named(tmp_path: Path) -> None:
    source = startup() + 'int far_away __attribute__((section(".ccm"))) = 1;\n'
    # The chip has this memory, its emulator does not.
    script = without_asserts(linker_script(M4)).replace("/DISCARD/", CCM + "/DISCARD/")
    with pytest.raises(FirmwareError, match=r"section \.ccm \(0x10000000, 4 bytes\) is outside FLASH, SRAM"):
        check_image(link(tmp_path, source, script), M4)
    check_image(link(tmp_path, source, script), M4, emulated=False)


def test_variables_in_flash_are_named(tmp_path: Path) -> None:
    source = startup() + "int counter __attribute__((used)) = 7;\n"
    script = without_asserts(linker_script(M4)).replace("> RAM AT > FLASH", "> FLASH")
    with pytest.raises(FirmwareError, match=r"section \.data .* holds variables, but FLASH cannot be written"):
        check_image(link(tmp_path, source, script), M4)


def test_data_without_a_place_in_flash_is_named(tmp_path: Path) -> None:
    source = startup() + "int counter __attribute__((used)) = 7;\n"
    script = linker_script(M4).replace("> RAM AT > FLASH", "> RAM")
    with pytest.raises(FirmwareError, match=r"4 bytes are loaded at 0x20000000, outside FLASH"):
        check_image(link(tmp_path, source, script), M4)


@pytest.mark.parametrize(("content", "message"), [(b"no elf", "not a sound ELF"), (b"", "not a sound ELF")])
def test_other_files_are_no_images(content: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "x.elf"
    path.write_bytes(content)
    with pytest.raises(FirmwareError, match=message):
        Image(path)


def test_a_pipe_is_no_image(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FirmwareError, match="no plain file"):
        Image(tmp_path / "pipe")


def test_a_truncated_image_is_no_image(tmp_path: Path) -> None:
    path = tmp_path / "cut.elf"
    path.write_bytes(build_fake(M4, tmp_path).read_bytes()[:3000])
    with pytest.raises(FirmwareError):
        check_image(path, M4)


def test_no_size_in_an_image_is_believed(tmp_path: Path) -> None:
    path = build_fake(M4, tmp_path)
    sound = path.read_bytes()
    headers = int.from_bytes(sound[28:32], "little")
    for field in (4, 16):  # where a segment is, and its bytes
        image = bytearray(sound)
        image[headers + field : headers + field + 4] = b"\xff\xff\xff\xff"
        path.write_bytes(image)
        with pytest.raises(FirmwareError, match="shorter than its headers say"):
            Image(path)


def test_a_table_of_symbols_that_is_none_is_named(tmp_path: Path) -> None:
    path = build_fake(M4, tmp_path)
    image = bytearray(path.read_bytes())
    start, count = int.from_bytes(image[32:36], "little"), int.from_bytes(image[48:50], "little")
    table = next(at for at in range(start, start + 40 * count, 40) if image[at + 4] == 2)  # SHT_SYMTAB
    image[table + 4] = 1
    path.write_bytes(image)
    with pytest.raises(FirmwareError, match="no table of symbols"):
        Image(path)


def test_a_host_program_is_no_image(tmp_path: Path) -> None:
    image = build_fake(load_board("host"), tmp_path)
    with pytest.raises(FirmwareError, match="not an image for 32-bit Arm"):
        check_image(image, M4)


@pytest.mark.parametrize("board", [M4, M55], ids=lambda board: board.name)
def test_sizes_add_up(board, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    elf = build_fake(board, tmp_path)
    sizes = image_sizes(elf)
    assert sizes["weights"] == 16
    assert sizes["arena"] == 32
    assert sizes["stack_reserve"] == board.stack_size
    assert sizes["weights"] + sizes["code"] + sizes["rodata"] == sizes["flash"]
    split = sizes["flash_split"]
    assert sum(split.values()) == sizes["flash"]
    assert split["weights"] == 16
    assert 100 < split["kernels"] < 500
    assert split["runtime"] > 1500
    assert split["libc"] == 0
    # Everything stored is in the file's load segments, which may add alignment.
    assert sizes["flash"] <= sum(segment.file_size for segment in Image(elf).segments) < sizes["flash"] + 64


def test_libc_and_libm_are_told_apart_from_kernels(tmp_path: Path) -> None:
    text = (
        "#include <math.h>\n#include <string.h>\nvolatile float x = 0.5F;\nvolatile char a[99];\nchar b[99];\n"
        "int main(int argc, char **argv) { (void)argv; memset(b, argc, sizeof(b)); x = expf(x) + (float)b[argc];\n"
        'port_print((x > 1.6F) ? "status=ok\\n" : "status=error expf\\n"); return 0; }\n'
    )
    elf = build_program(text, M4, tmp_path)
    run_image(elf, M4)
    split = image_sizes(elf)["flash_split"]
    assert split["libc"] > 300
    named = image_sizes(elf, runtime_objects={"program"})["flash_split"]
    assert named["kernels"] == 0
    assert named["libc"] == split["libc"]
    assert "flash_split" not in image_sizes(elf, tmp_path / "nothing.map")


def test_initialised_data_counts_as_flash_and_ram(tmp_path: Path) -> None:
    def build(data: int) -> dict[str, int]:
        text = f"volatile char big[{data}] = {{1}};\nint main(int c, char **v) {{ (void)v; return big[c]; }}\n"
        return image_sizes(build_program(text, M4, tmp_path / str(data)))

    small, large = build(100), build(1100)
    assert large["flash"] - small["flash"] == 1000
    assert large["ram"] - small["ram"] == 1000


@pytest.mark.parametrize(
    ("declaration", "message"),
    [
        ("const volatile char big[2000000] = {1};", r"region `FLASH' overflowed by \d+ bytes"),
        ("volatile char big[200000];", r"region `RAM' overflowed by \d+ bytes"),
        ("volatile char big[130000];", "no room for the stack: data and arena fill the RAM"),
    ],
)
def test_an_image_that_does_not_fit_says_so(declaration: str, message: str, tmp_path: Path) -> None:
    text = declaration + "\nint main(int c, char **v) { (void)v; return big[c]; }\n"
    with pytest.raises(CapacityError, match=message):
        build_program(text, M4, tmp_path)
    assert not (tmp_path / "program.elf").exists()


def test_a_compiler_error_shows_command_and_output(tmp_path: Path) -> None:
    with pytest.raises(ToolchainError, match=r"program\.c does not compile[\s\S]*undeclared[\s\S]*-mcpu=cortex-m4"):
        build_program("int main(int c, char **v) { return nothing; }\n", M4, tmp_path)


def test_a_failed_build_leaves_the_last_image_alone(tmp_path: Path) -> None:
    good = "int main(int c, char **v) { (void)c; (void)v; return 0; }\n"
    elf = build_program(good, M4, tmp_path)
    before = elf.read_bytes()
    with pytest.raises(ToolchainError, match="does not link"):
        build_program("int nothing(void);\n" + good.replace("return 0", "return nothing()"), M4, tmp_path)
    assert elf.read_bytes() == before
    assert not list(tmp_path.glob(".*.part"))


def test_an_image_is_the_same_every_time(tmp_path: Path) -> None:
    first = build_fake(M4, tmp_path).read_bytes()
    assert build_fake(M4, tmp_path, jobs=1).read_bytes() == first


def test_the_linker_script_takes_another_stack_size(tmp_path: Path) -> None:
    elf = link(tmp_path, startup(), linker_script(M4, stack_size=1001))
    assert image_sizes(elf)["stack_reserve"] == 1008
    with pytest.raises(TargetError, match="does not fit SRAM"):
        linker_script(M4, stack_size=1024 * 1024)
    with pytest.raises(TargetError, match="host board"):
        linker_script(load_board("host"))


def test_weights_go_to_a_memory_of_their_own(tmp_path: Path) -> None:
    section = Image(build_fake(M55, tmp_path)).section(".nn_weights")
    assert section is not None
    assert section.address == M55.weights.origin == 0x01000000
