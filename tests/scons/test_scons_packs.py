"""A device of a CMSIS pack in SCons builds: what is built, what an update rebuilds, what is never touched."""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from scons_support import HEAD, Project, copy_tools, require_tools, write_model
from support import ROOT, need_board

sys.path.append(str(ROOT / "tests" / "packs"))

from pack_server import Toy

from cmsis_packs.cache import ROOT as PACK_ROOT
from tvm_stm32.boards import load_board
from tvm_stm32.cli import cli
from tvm_stm32.project.emulator import run_image
from tvm_stm32.project.image import Image
from tvm_stm32.project.linker import linker_script

SCONSTRUCT = (
    HEAD.replace('"stm32_firmware"]', '"stm32_firmware", "stm32_packs", "stm32_sbom"]')
    + """
env.Replace(TVMSTM32DEVICECOMSTR="DEVICE $TARGET", TVMSTM32CONFIGFILECOMSTR="CONFIG $TARGET")
device = env.CmsisDevice("TOY101", packs="packs.lock", components=["Device:Startup", "Device:HAL:Common"])
network = env.TvmModel("build/net/tiny", "model.onnx", BOARD=device)
runtime = env.TvmRuntime("build/runtime")
for name in ("one", "two"):
    image = env.Firmware(f"build/{name}.elf", [f"{name}.c", network], BOARD=device, RUNTIME=runtime)
    env.Sbom(f"build/{name}.cdx.json", image)
own = env.Clone(CC="arm-none-eabi-gcc", LINK="arm-none-eabi-gcc", CPPPATH=device.include, CPPDEFINES=device.defines)
own.Append(CCFLAGS=device.flags)
own.Replace(LINKFLAGS=[*device.flags, "-nostartfiles", "--specs=nano.specs", "-T", device.linker_script])
program = own.Program("build/own.elf", ["own.c", device.startup, device.objects])
own.Depends(program, device.linker_script)
"""
)

MAIN = """
#include "RTE_Components.h"
#include CMSIS_device_header
#include "hal_conf.h"
#include "port.h"
#include "tiny.h"

#if !defined(RTE_HAL) || !defined(HAL_TIMEOUT)
#error "the components are not there"
#endif

static volatile int interrupted;

void TIM2_IRQHandler(void)
{
    interrupted = 1;
}

int main(void)
{
    ai_handle network;

    NVIC_ISER = 1UL << TIM2_IRQn;
    NVIC_ISPR = 1UL << TIM2_IRQn;
    __asm volatile("dsb\\n\\tisb");
    if ((hal_started() != 42) || (interrupted == 0) || ((SHCSR & (1UL << 18)) == 0)) {
        return 1;
    }
    if (ai_create(&ai_tiny_network, NULL, &network) != AI_STATUS_OK) {
        return 2;
    }
    port_print("status=ok\\n");
    return 0;
}
"""

# Without anything of this project but the device's files.
OWN = """
#include "toy.h"

static volatile int interrupted;

void TIM2_IRQHandler(void);

void TIM2_IRQHandler(void)
{
    interrupted = 1;
}

static void host(unsigned operation, const void *argument)
{
    register unsigned r0 __asm__("r0") = operation;
    register const void *r1 __asm__("r1") = argument;

    __asm__ volatile("bkpt 0xAB" : "+r"(r0) : "r"(r1) : "memory");
}

int main(void)
{
    static const unsigned leave[2] = {0x20026U, 0U};

    NVIC_ISER = 1UL << TIM2_IRQn;
    NVIC_ISPR = 1UL << TIM2_IRQn;
    __asm__ volatile("dsb\\n\\tisb");
    if ((hal_started() == 42) && (interrupted == 1) && ((SHCSR & (1UL << 18)) != 0)) {
        host(0x04, "status=ok\\n");
        host(0x20, leave);
    }
    return 1;
}
"""

HEADER = """#ifndef TOY_H
#define TOY_H
#if !defined(TOY1xx)
#error "no device"
#endif
typedef enum { SysTick_IRQn = -1, WWDG_IRQn = 0, TIM2_IRQn = 5, USART1_IRQn = 9 } IRQn_Type;
#define NVIC_ISER (*(volatile unsigned long *)0xE000E100UL)
#define NVIC_ISPR (*(volatile unsigned long *)0xE000E200UL)
int hal_started(void);
#define SHCSR (*(volatile unsigned long *)0xE000ED24UL)
#endif
"""

BODY = """<devices><family Dfamily="Toy Series" Dvendor="Acme:77">
  <processor Dcore="Cortex-M4" Dfpu="1" Dmpu="1" Dclock="100000000"/>
  <compile header="Include/toy.h" define="TOY1xx"/>
  <memory name="Flash" access="rx" start="0x08000000" size="0x40000" default="1" startup="1"/>
  <memory name="SRAM" access="rwx" start="0x20000000" size="0x10000" default="1"/>
  <memory name="Fast" access="rw" start="0x10000000" size="0x4000"/>
  <device Dname="TOY101"/>
</family></devices>
<components>
  <component Cclass="Device" Cgroup="Startup" Cversion="1.0.0"><files>
    <file category="include" name="Include/"/>
    <file category="sourceC" name="Source/system_toy.c" attr="config"/></files></component>
  <component Cclass="Device" Cgroup="HAL" Csub="Common" Cversion="1.0.0">
    <RTE_Components_h>#define RTE_HAL</RTE_Components_h><files>
    <file category="header" name="Config/hal_conf.h" attr="config"/>
    <file category="sourceC" name="Hal/hal.c"/><file category="sourceC" name="Hal/hal_more.c"/></files></component>
</components>"""


def toy_pack(version: str, **changes: str) -> Toy:
    files = {
        "Include/toy.h": HEADER,
        "Source/system_toy.c": '#include "toy.h"\nvoid SystemInit(void);\n'
        "void SystemInit(void)\n{\n    SHCSR |= 1UL << 18;\n}\n",
        "Config/hal_conf.h": "#define HAL_TIMEOUT 42\n",
        "Hal/hal.c": '#include "toy.h"\n#include "hal_conf.h"\nint hal_started(void)\n{\n    return HAL_TIMEOUT;\n}\n',
        "Hal/hal_more.c": "typedef int nothing;\n",
        **changes,
    }
    return Toy("Acme", "Toy_DFP", version, body=BODY, files={name: text.encode() for name, text in files.items()})


class Packs:
    """A project whose packs come from a folder."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        require_tools("arm-none-eabi-gcc")
        self.project = Project(folder)
        self.packs = folder / "packs"
        self.packs.mkdir(parents=True)
        self.cache = folder.parent / "cache of packs"
        monkeypatch.setenv(PACK_ROOT, str(self.cache))
        copy_tools(folder / "tools")
        write_model(folder / "model.onnx")
        self.project.write("SConstruct", SCONSTRUCT)
        for name in ("one.c", "two.c"):
            self.project.write(name, MAIN)
        self.project.write("own.c", OWN)
        self.project.write("packs.yaml", "packs: [Acme::Toy_DFP]\nsources: [./packs]\n")

    def release(self, pack: Toy) -> None:
        """Put a pack into the folder and install the newest."""
        (self.packs / pack.archive_name).write_bytes(pack.archive())
        cli.main(["packs", "update", "--file", str(self.project.path("packs.yaml"))], standalone_mode=False)


@pytest.fixture
def packs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Packs:
    return Packs(tmp_path / "project", monkeypatch)


def did(output: str, *kinds: str) -> list[str]:
    words = [line.split() for line in output.splitlines()]
    return sorted(f"{w[0]} {Path(w[1]).name}" for w in words if len(w) == 2 and w[0] in kinds)


def test_a_device_of_a_pack_is_built_run_and_updated(packs: Packs) -> None:
    project = packs.project
    packs.release(toy_pack("1.0.0"))
    first = project.scons()
    # Components once, whatever the number of images; config files become the project's.
    assert did(first.output, "CONFIG") == ["CONFIG hal_conf.h", "CONFIG system_toy.c"]
    assert [line for line in did(first.output, "CC") if "hal" in line or "system_toy" in line] == [
        "CC hal.o", "CC hal_more.o", "CC system_toy.o"
    ]  # fmt: skip
    assert project.path("RTE/Device/system_toy.c").is_file()
    board = load_board(project.path("build/cmsis/toy101/toy101.yaml"))
    assert (board.target.cpu, board.flash.size, board.ram.size) == ("cortex-m4", 0x40000, 0x10000)
    image = Image(project.path("build/one.elf"))
    assert {"TIM2_IRQHandler", "USART1_IRQHandler", "SystemInit", "hal_started"} <= set(image.symbols)
    second = project.scons()
    assert second.is_null and second.cpu_s < 3, second.output
    project.scons("sbom")
    parts = json.loads(project.path("build/two.cdx.json").read_text("utf-8"))["components"]
    assert [part["version"] for part in parts if part["name"] == "Toy_DFP"] == ["1.0.0"]

    need_board("mps2-an386")
    for name in ("one", "two"):
        result = run_image(project.path(f"build/{name}.elf"), board)
        assert result.values["status"] == "ok"
    # The chip's addresses, which this machine has, too.
    assert run_image(project.path("build/own.elf"), load_board("stm32f405")).values["status"] == "ok"

    # An update that changes one file compiles that one, and links.
    more = {"Hal/hal_more.c": "typedef long nothing;\n"}
    packs.release(toy_pack("1.1.0", **more))
    third = project.scons()
    assert did(third.output, "CC", "MODEL", "CONFIG") == ["CC hal_more.o"], third.output
    assert project.scons().is_null

    # Config files stay as they are; the difference is shown until it is merged.
    project.edit("RTE/Device/hal_conf.h", "HAL_TIMEOUT 42", "HAL_TIMEOUT 42 /* mine */")
    assert did(project.scons().output, "CC", "MODEL") == ["CC hal.o", "CC one.o", "CC two.o"]
    more["Config/hal_conf.h"] = "#define HAL_TIMEOUT 42\n#define HAL_MORE 1\n"
    packs.release(toy_pack("1.2.0", **more))
    fourth = project.scons()
    assert "+#define HAL_MORE 1" in fourth.output and "-#define" not in fourth.output
    assert "Acme::Toy_DFP 1.2.0 has another RTE/Device/hal_conf.h" in fourth.output
    assert not did(fourth.output, "CC", "MODEL", "CONFIG")
    assert "mine" in project.path("RTE/Device/hal_conf.h").read_text()
    command = next(line for line in fourth.output.splitlines() if "packs merged" in line).partition("tvm-stm32 ")[2]
    words = shlex.split(command)
    cli.main([*words[:2], str(project.path(words[2])), *words[3:]], standalone_mode=False)
    assert "has another" not in project.scons().output

    # Sources include the device's header by a macro.
    more["Include/toy.h"] = HEADER.replace("#endif\n", "#define TOY_MORE 1\n#endif\n", 1)
    packs.release(toy_pack("1.3.0", **more))
    assert did(project.scons().output, "CC", "MODEL") == [
        "CC hal.o", "CC hal_more.o", "CC one.o", "CC own.o", "CC system_toy.o", "CC two.o"
    ]  # fmt: skip
    # Another number of an interrupt is another place among the vectors.
    more["Include/toy.h"] = more["Include/toy.h"].replace("TIM2_IRQn = 5", "TIM2_IRQn = 7")
    packs.release(toy_pack("1.4.0", **more))
    built = did(project.scons().output, "CC", "MODEL")
    assert {"CC one.o", "CC port_startup.o", "CC startup.o"} <= set(built) and "MODEL tiny" not in built
    # A name that no interrupt has.
    project.edit("two.c", "TIM2_IRQHandler(void)", "TIM22_IRQHandler(void)")
    assert "note: TIM22_IRQHandler is in no vector of linked.elf, and left out" in project.scons().output
    project.edit("two.c", "TIM22_IRQHandler(void)", "TIM2_IRQHandler(void)")
    assert "in no vector" not in project.scons().output
    assert run_image(project.path("build/two.elf"), board).values["status"] == "ok"
    text = project.path("build/two.elf").read_bytes()
    assert str(packs.cache).encode() not in text

    project.scons("-c", variables={PACK_ROOT: str(packs.cache / "elsewhere")})
    assert project.path("RTE/Device/hal_conf.h").is_file() and not project.path("build/one.elf").exists()


def test_what_is_wrong_is_said_with_the_users_line(packs: Packs, tmp_path: Path) -> None:
    project = packs.project
    fails = project.scons(fails=True).output
    assert "CmsisDevice: cannot read 'packs.lock'" in fails and "tvm-stm32 packs install" in fails
    packs.release(toy_pack("1.0.0"))
    text = project.path("SConstruct").read_text()
    again = 'env.CmsisDevice("TOY101", packs="packs.lock", components=["Device:Startup", "Device:HAL:Common"])'
    other = again.replace(', "Device:HAL:Common"', "")
    project.write("SConstruct", f"{text}\nassert {again} is device\n{other}\n")
    fails = project.scons(fails=True).output
    assert "'build/cmsis/toy101' is the folder of another device" in fails and "folder=" in fails
    project.write("SConstruct", text)
    project.edit("SConstruct", '"TOY101"', '"TOY404"')
    fails = project.scons(fails=True).output
    assert "no installed pack has the device 'TOY404'" in fails and "TOY101" in fails and "SConstruct" in fails
    project.edit("SConstruct", '"TOY404"', '"TOY101"')
    project.edit("SConstruct", '"Device:Startup"', '"Device:Strtup"')
    assert "no component 'Device:Strtup'" in project.scons(fails=True).output
    project.edit("SConstruct", '"Device:Strtup"', '"Acme::Device:Startup@>=1.0.0"')
    assert "DEVICE" in project.scons("build/cmsis").output and not project.path("=1.0.0").exists()
    project.scons("-c")
    project.path("build").rename(project.path("was"))
    project.path("RTE").rename(project.path("was/RTE"))
    project.edit("SConstruct", '"Acme::Device:Startup@>=1.0.0"', '"Device:Startup"')
    project.edit("SConstruct", 'packs="packs.lock"', 'packs=["packs.lock"]')
    assert "CmsisDevice: packs is ['packs.lock']" in project.scons(fails=True).output
    project.edit("SConstruct", 'packs=["packs.lock"]', 'packs="packs.lock"')
    nowhere = {PACK_ROOT: str(tmp_path / "other")}
    fails = project.scons(fails=True, variables=nowhere).output
    assert "not installed: Acme::Toy_DFP@1.0.0" in fails and "tvm-stm32 packs install" in fails
    # Reading is all that dry runs do.
    assert "DEVICE" in project.scons("-n").output
    assert not project.path("build").exists() and not project.path("RTE").exists()


def test_a_board_of_the_project_needs_no_pack(tmp_path: Path) -> None:
    require_tools("arm-none-eabi-gcc")
    project = Project(tmp_path / "project")
    copy_tools(tmp_path / "project" / "tools")
    write_model(tmp_path / "project" / "model.onnx")
    text = SCONSTRUCT.replace(
        '"TOY101", packs="packs.lock", components=["Device:Startup", "Device:HAL:Common"]', "board"
    )
    project.write("SConstruct", text + "\nprint('flags', ' '.join(device.flags))\n")
    for name in ("one.c", "two.c", "own.c"):
        project.write(name, "int main(void)\n{\n    return 0;\n}\n")
    build = project.scons("BOARD=nucleo-f401re")
    assert "flags -mcpu=cortex-m4 -mthumb" in build.output
    assert len(build.of("LINK")) == 3 and project.scons("BOARD=nucleo-f401re").is_null
    assert Image(project.path("build/own.elf")).words(0x08000000, 1) == [0x20018000]


def test_a_board_file_and_the_vectors_of_its_chip(packs: Packs) -> None:
    """Clocks and console of the board, interrupts and components of the pack."""
    project = packs.project
    packs.release(toy_pack("1.0.0"))
    project.write(
        "mine.yaml",
        "name: mine\ntitle: Mine\ndevice: TOY101\ncpu: cortex-m4\nclock_hz: 100000000\nmemories:\n"
        "  - {name: FLASH, origin: 0x08000000, size: 256K, access: rx}\n"
        "  - {name: RAM, origin: 0x20000000, size: 32K, access: rwx}\n"
        "image: {flash: FLASH, ram: RAM}\nemulator: {stand_in: mps2-an386}\n",
    )
    project.edit("SConstruct", '"TOY101", packs="packs.lock"', '"mine.yaml"')
    project.scons()
    board = load_board(project.path("mine.yaml"))
    assert run_image(project.path("build/one.elf"), board).values["status"] == "ok"
    assert Image(project.path("build/own.elf")).words(0x08000000, 1) == [0x20008000]
    assert not project.path("build/cmsis/mine/mine.yaml").exists()
    assert project.scons().is_null


# What a start-up file of Arm's packs does: newlib's start is next.
STARTUP = """
extern unsigned __stack_top[], __data_load__[], __data_start__[], __data_end__[], __bss_start__[], __bss_end__[];
extern void _start(void) __attribute__((noreturn));
void Reset_Handler(void) __attribute__((noreturn));
void Default_Handler(void) __attribute__((noreturn));
void TIM2_IRQHandler(void) __attribute__((weak, noreturn, alias("Default_Handler")));
typedef void (*vector)(void);
__attribute__((used, section(".isr_vector"))) const vector vectors[22] = {
    (vector)__stack_top, Reset_Handler, [2 ... 20] = Default_Handler, TIM2_IRQHandler};
void Default_Handler(void) { for (;;) { } }
void Reset_Handler(void)
{
    unsigned *to, *from = __data_load__;
    *(volatile unsigned long *)0xE000ED88UL |= 0xFUL << 20;
    *(volatile unsigned long *)0xE000ED24UL |= 1UL << 18;
    for (to = __data_start__; to < __data_end__; to++) { *to = *from++; }
    for (to = __bss_start__; to < __bss_end__; to++) { *to = 0; }
    _start();
}
"""


def test_start_up_code_and_linker_script_of_a_pack(packs: Packs) -> None:
    project = packs.project
    script = linker_script(load_board("mps2-an386")).replace("*(.nn_arena .nn_arena.*)", "").replace(".nn_pool_", ".x_")
    script = script.replace("LENGTH = 0x400000", "LENGTH = 0x10000")
    names = ("__stack_limit", "__fault_stack")
    script = "\n".join(line for line in script.splitlines() if not any(name in line for name in names))
    body = BODY.replace(
        "</components>",
        """<component Cclass="Device" Cgroup="Own" Cversion="1.0.0"><files>
        <file category="sourceC" name="Own/startup_toy.c" attr="config"/>
        <file category="linkerScript" name="Own/toy.ld" attr="config"/></files></component></components>""",
    )
    pack = toy_pack("1.0.0", **{"Own/startup_toy.c": STARTUP, "Own/toy.ld": script})
    packs.release(replace(pack, body=body))
    project.edit("SConstruct", '"Device:HAL:Common"', '"Device:HAL:Common", "Device:Own"')
    text = project.path("SConstruct").read_text()
    project.write("SConstruct", text[: text.index("own = env.Clone")])
    build = project.scons()
    assert "CC startup_toy.o" in did(build.output, "CC") and "CC port_startup.o" not in did(build.output, "CC")
    board = load_board(project.path("build/cmsis/toy101/toy101.yaml"))
    assert run_image(project.path("build/one.elf"), board).values["status"] == "ok"
    assert project.scons().is_null
