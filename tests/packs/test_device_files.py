"""What a build takes of several packs: sources, config files of the project, interrupts, RTE_Components.h."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from cmsis_packs.config_files import ConfigFile, target_of
from cmsis_packs.interrupts import interrupts_of_header, interrupts_of_svd, vector_list
from cmsis_packs.model import Device, Pack
from cmsis_packs.pdsc import parse_pdsc
from cmsis_packs.rte import rte_components_h
from cmsis_packs.selection import Chosen, choose
from cmsis_packs.startup import startup_source
from tvm_stm32.errors import Error, PackError
from tvm_stm32.target import Target

CHIPS = """<package><vendor>Acme</vendor><name>Toy_DFP</name><releases><release version="2.1.0"/></releases>
<devices><family Dfamily="Toy" Dvendor="Acme:77"><processor Dcore="Cortex-M4" Dfpu="1"/>
  <compile header="Include/toy.h" define="TOY101"/>
  <memory name="Flash" access="rx" start="0x08000000" size="0x80000" default="1" startup="1"/>
  <device Dname="TOY101"/><device Dname="TOY/102"/></family></devices>
<conditions>
  <condition id="Toy core"><require Dvendor="Acme:77"/><require Cclass="CMSIS" Cgroup="CORE"/></condition>
  <condition id="Toy"><require Dvendor="Acme:77"/></condition>
</conditions>
<components>
  <component Cclass="Device" Cgroup="Startup" Cversion="1.2.0" condition="Toy core">
    <RTE_Components_h>#define RTE_STARTUP
#define RTE_STARTUP_2</RTE_Components_h>
    <files>
      <file category="include" name="Include/"/>
      <file category="sourceC" name="Source/startup_toy.c"/>
      <file category="sourceC" name="Source/system_toy.c" attr="config" version="1.0.1"/>
      <file category="linkerScript" name="Source/toy.ld" attr="config" version="1.0.0"/>
    </files>
  </component>
  <component Cclass="Device" Cgroup="HAL" Csub="Common" Cversion="1.0.0"><files>
    <file category="header" name="Hal/hal_conf.h" attr="config"/></files></component>
  <component Cclass="Device" Cgroup="Lost" Cversion="1.0.0"><files>
    <file category="sourceC" name="Source/lost.c"/></files></component>
  <component Cclass="CMSIS" Cgroup="NN" Cversion="1.0.0"><files/></component>
</components></package>"""
CORE = """<package><vendor>ARM</vendor><name>CMSIS</name><releases><release version="6.0.0"/></releases>
<conditions><condition id="M0"><require Dcore="Cortex-M0"/></condition></conditions>
<components>
  <component Cclass="CMSIS" Cgroup="CORE" Cversion="6.0.0"><files>
    <file category="include" name="Core/Include/"/></files></component>
  <component Cclass="CMSIS" Cgroup="NN" Cversion="7.0.0"><files/></component>
  <component Cclass="CMSIS" Cgroup="Small" Cversion="1.0.0" condition="M0"><files/></component>
</components></package>"""
HEADER = """#ifndef TOY_H
#if !defined(TOY101)
#error "no device"
#endif
typedef enum IRQn
{
  Reset_IRQn = -15, /* core */
  SysTick_IRQn = -1,
  WWDG_IRQn = 0, // first, with a comma
  PVD_IRQn,
  USART1_IRQn = 0x4,
  UART1_IRQn = 4U,
  DMA_IRQn = 5,
} IRQn_Type;
#include "core_cm4.h"
#endif
"""


def folder_of(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


@pytest.fixture
def packs(tmp_path: Path) -> list[tuple[Path, Pack]]:
    chips = folder_of(
        tmp_path / "chips",
        {
            "Include/toy.h": HEADER,
            "Source/startup_toy.c": "int a;\n",
            "Source/system_toy.c": "int b = 1;\nint c;\n",
            "Source/toy.ld": "MEMORY {}\n",
            "Hal/hal_conf.h": "#define HAL\n",
        },
    )
    core = folder_of(tmp_path / "core", {"Core/Include/core_cm4.h": "\n"})
    return [(chips, parse_pdsc(CHIPS.encode(), "a.pdsc")), (core, parse_pdsc(CORE.encode(), "b.pdsc"))]


def toy(packs: list[tuple[Path, Pack]]) -> Device:
    return packs[0][1].device("TOY101")


def chosen(packs: list[tuple[Path, Pack]], *components: str, project: Path = Path("RTE")) -> Chosen:
    return choose(packs, toy(packs), components, project=project)


def test_components_of_several_packs_see_each_other(packs):
    found = chosen(packs, "Device:Startup", "CMSIS:CORE", "Device:HAL:Common")
    chips, core = packs[0][0], packs[1][0]
    assert found.sources == (chips / "Source" / "startup_toy.c",)
    assert [(config.target, config.version) for config in found.configs] == [
        (Path("RTE/Device/TOY101/system_toy.c"), "2.1.0"),
        (Path("RTE/Device/TOY101/toy.ld"), "2.1.0"),
        (Path("RTE/Device/hal_conf.h"), "2.1.0"),
    ]
    # Copies of headers hide the pack's own.
    assert found.include_folders == (Path("RTE/Device"), chips / "Include", core / "Core" / "Include")
    assert found.header == "toy.h"


def test_a_component_says_what_it_lacks_and_where_it_was_looked_for(packs):
    with pytest.raises(PackError, match=r"'Acme::Device:Startup@1\.2\.0' lacks something on device 'TOY101'"):
        chosen(packs, "Device:Startup")
    with pytest.raises(PackError, match="no pack has the component 'CMSIS:NOPE'") as caught:
        chosen(packs, "CMSIS:NOPE")
    assert "Acme::Toy_DFP@2.1.0, ARM::CMSIS@6.0.0" in caught.value.why
    with pytest.raises(PackError, match="'CMSIS:NN' is in several packs") as caught:
        chosen(packs, "CMSIS:NN")
    assert "Vendor::Class:Group" in caught.value.hint
    assert chosen(packs, "ARM::CMSIS:NN").components[0].vendor == "ARM"
    with pytest.raises(PackError, match=r"'Acme::Device:Startup@1\.2\.0' lacks something") as caught:
        chosen(packs, "Device:Startup")
    assert "ARM::CMSIS:CORE@6.0.0" in caught.value.hint
    with pytest.raises(PackError, match="'CMSIS:Small' is not for device 'TOY101'"):
        chosen(packs, "CMSIS:Small")
    with pytest.raises(PackError, match=r"has no file 'Source/lost\.c'"):
        chosen(packs, "Device:Lost")


def test_a_config_file_is_copied_once_and_an_update_shows_the_difference(packs, tmp_path):
    project = tmp_path / "project" / "RTE"
    config = next(c for c in chosen(packs, "Device:Startup", "CMSIS:CORE", project=project).configs)
    assert config.copy_once() and config.target.read_text() == "int b = 1;\nint c;\n"
    config.target.write_text("int b = 7; /* mine */\nint c;\n")
    assert not config.copy_once() and not config.is_outdated() and not config.difference()
    # A new version of the pack.
    config.source.write_text("int b = 2;\nint c;\n")
    newer = ConfigFile(config.source, config.target, "1.1.0")
    assert not newer.copy_once() and newer.is_outdated()
    assert "mine" in newer.target.read_text()
    patch = newer.difference()
    assert "-int b = 1;\n+int b = 2;\n" in patch and "mine" not in patch
    newer.mark_merged()
    assert not newer.is_outdated() and "mine" in newer.target.read_text()
    assert [path.name for path in sorted(newer.target.parent.iterdir())] == ["system_toy.c", "system_toy.c.base@1.1.0"]


def test_two_config_files_of_one_name_are_refused(packs):
    chips = packs[0][0]
    text = CHIPS.replace(
        "</components>",
        """<component Cclass="Device" Cgroup="More" Cversion="1.0.0"><files>
        <file category="header" name="More/HAL_conf.h" attr="config"/></files></component></components>""",
    )
    (chips / "More").mkdir()
    (chips / "More" / "HAL_conf.h").write_text("other")
    more = [(chips, parse_pdsc(text.encode(), "a.pdsc")), packs[1]]
    with pytest.raises(PackError, match=r"two config files are to be 'RTE/Device/HAL_conf\.h' of the project"):
        chosen(more, "Device:HAL:Common", "Device:More")


def test_worlds_of_a_processor_that_has_none_are_refused(packs):
    for security in ("Secure", "Sekure"):
        with pytest.raises(PackError, match=r"security is '?Se"):
            choose(packs, toy(packs), ["CMSIS:CORE"], security=security)


def test_versions_are_no_paths(tmp_path):
    for version in ("../y", "a/b", "", "1\n", ".."):
        with pytest.raises(Error, match="is no version of a pack"):
            ConfigFile(tmp_path / "a", tmp_path / "b", version)


def test_a_difference_fits_the_file_it_is_for(tmp_path):
    patch_program = shutil.which("patch")
    if patch_program is None:
        pytest.skip("there is no patch")
    config = ConfigFile(tmp_path / "new.c", tmp_path / "RTE" / "x.c", "1")
    config.source.write_text("a\nb\nc\nd\ne\nf\n")
    config.copy_once()
    config.target.write_text("mine\na\nb\nc\nd\ne\nf\n")
    config.source.write_text("a\nb\nc\nd\nE\nf\n")
    done = subprocess.run(
        [patch_program, str(config.target)], input=config.difference().encode(), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout
    assert config.target.read_text() == "mine\na\nb\nc\nd\nE\nf\n"


def test_config_files_stay_in_their_folder():
    assert target_of(Path("RTE"), "Board Support", "TOY/102", "a.c") == Path("RTE/Board_Support/TOY_102/a.c")
    for class_, device, name in (("..", "", "a.c"), ("A", "..", "a.c"), ("A", "", ".."), ("A", "", "x/../y")):
        with pytest.raises(Error, match="is no place for a config file"):
            target_of(Path("RTE"), class_, device, name)


def test_interrupts_come_from_the_header_as_the_preprocessor_sees_it(packs):
    header = packs[0][0] / "Include" / "toy.h"
    # What is included behind them need not be there; of two names the first counts.
    assert interrupts_of_header(header, ["TOY101"], ["cc"]) == {0: "WWDG", 1: "PVD", 4: "USART1", 5: "DMA"}
    with pytest.raises(PackError, match=r"'toy\.h' has no IRQn_Type") as caught:
        interrupts_of_header(header, [], ["cc"])
    assert "no device" in caught.value.why
    with pytest.raises(PackError, match="cannot run the preprocessor"):
        interrupts_of_header(header, [], ["no-such-compiler"])
    for text in ("typedef enum { A_IRQn = sizeof(int) } IRQn_Type;", "typedef enum { A_IRQn = B } IRQn_Type;"):
        header.write_text(text)
        with pytest.raises(PackError, match="is no constant"):
            interrupts_of_header(header, [], ["cc"])
    for text in (
        "typedef enum { A_IRQn = 010, B_IRQn = (A_IRQn + 0x1) | 1 << 4, C_IRQn = 0b11U } IRQn_Type;",
        "typedef enum __attribute__((packed)) x { A_IRQn = 8, B_IRQn = 25, C_IRQn = 3 } IRQn_Type;",
        "typedef enum IRQn IRQn_Type;\nenum IRQn { A_IRQn = 8, B_IRQn = 25, C_IRQn = 3 };",
    ):
        header.write_text(text)
        assert interrupts_of_header(header, [], ["cc"]) == {3: "C", 8: "A", 25: "B"}
    header.write_text("typedef enum { A_IRQn = 99 ** 99 } IRQn_Type;")
    with pytest.raises(PackError, match="is no constant"):
        interrupts_of_header(header, [], ["cc"])
    header.write_text("typedef enum { A_IRQn = 100000 } IRQn_Type;")
    with pytest.raises(PackError, match="is number 100,000 of at most 480"):
        interrupts_of_header(header, [], ["cc"])


def test_interrupts_come_from_a_register_description(tmp_path):
    path = tmp_path / "toy.svd"

    def read(*interrupts: str) -> dict[int, str]:
        path.write_text(
            "<device><peripherals><peripheral><registers><register><name>CR</name></register></registers>"
            + "".join(interrupts)
            + "</peripheral></peripherals></device>"
        )
        return interrupts_of_svd(path)

    one = "<interrupt><name>USART1</name><value>37</value></interrupt>"
    assert read(one, "<interrupt><name>TIM2</name><value>0x1C</value></interrupt>", one) == {28: "TIM2", 37: "USART1"}
    # One name twice would be one function twice.
    twice = one.replace("37", "38")
    assert read(one, twice) == {37: "USART1", 38: "USART1_38"}
    third = one.replace("37", "5").replace("USART1", "USART1_38")
    assert sorted(read(one, twice, third).values()) == ["USART1", "USART1_38", "USART1_38_38"]
    for wrong, message in (
        ("<interrupt><name>A B</name><value>1</value></interrupt>", "no C name"),
        ("<interrupt><name>A</name></interrupt>", "is missing"),
        ("<interrupt><name>A</name><value>-1</value></interrupt>", "is no number"),
        ("<interrupt><name>A</name><value>9999</value></interrupt>", "is too large"),
    ):
        with pytest.raises(PackError, match=message):
            read(wrong)
    path.write_text("<package/>")
    with pytest.raises(PackError, match="no register description"):
        interrupts_of_svd(path)


def test_a_vector_list_has_every_number():
    text = vector_list({1: "PVD", 3: "RTC"})
    lines = [line.strip(" \\") for line in text.splitlines()]
    first = lines.index("#define PORT_INTERRUPTS(HANDLER, RESERVED)")
    assert lines[first + 1 : first + 5] == [
        "RESERVED(0)", "HANDLER(PVD_IRQHandler)", "RESERVED(2)", "HANDLER(RTC_IRQHandler)"
    ]  # fmt: skip


def test_components_tell_each_other_that_they_are_there(packs):
    found = chosen(packs, "Device:Startup", "CMSIS:CORE")
    text = rte_components_h(found.components, found.header)
    assert '#define CMSIS_device_header "toy.h"\n' in text
    assert "/* Acme::Device:Startup@1.2.0 */\n#define RTE_STARTUP\n#define RTE_STARTUP_2\n" in text
    assert "CMSIS_device_header" not in rte_components_h([], 'a"b')


@pytest.mark.parametrize("cpu", ["cortex-m0plus", "cortex-m4", "cortex-m33", "cortex-m55"])
def test_start_up_code_compiles_without_warnings(tmp_path, cpu):
    gcc = shutil.which("arm-none-eabi-gcc")
    if gcc is None:
        pytest.skip("arm-none-eabi-gcc is not installed")
    path = tmp_path / "startup.c"
    path.write_text(startup_source("TOY101 */ x", {1: "PVD", 3: "RTC"}, "toy.h"))
    warnings = (
        "-Wall -Wextra -Wconversion -Wmissing-prototypes -Wstrict-prototypes -Wshadow -Wundef -Wcast-qual -pedantic"
    )
    words = [
        gcc,
        *Target.for_cpu(cpu).compile_flags,
        "-std=c99",
        "-pedantic",
        "-O2",
        *warnings.split(),
        "-Werror",
        "-c",
        str(path),
    ]
    subprocess.run([*words, "-o", str(tmp_path / "startup.o")], check=True)
    text = path.read_text()
    assert "startup_vectors[20]" in text and text.count("RTC_IRQHandler") == 2
