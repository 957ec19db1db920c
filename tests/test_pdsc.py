"""PDSC files: devices with what they inherit, components, conditions, and one clear message for whatever is wrong."""

from __future__ import annotations

import ast
import random
import re
import time

import pytest
from support import ROOT

from cmsis_packs.model import Device, Pack
from cmsis_packs.pdsc import parse_pdsc, read_pdsc
from cmsis_packs.resolve import Resolution, resolve
from cmsis_packs.versions import in_range, satisfies, version_key
from tvm_stm32.errors import Error, PackError

ACME = """<?xml version="1.0" encoding="utf-8"?>
<package schemaVersion="1.7.36" xmlns:xs="http://www.w3.org/2001/XMLSchema-instance">
  <vendor>Acme</vendor>
  <name>Toy_DFP</name>
  <url>https://acme.example/pack/</url>
  <license>Docs\\LICENSE.txt</license>
  <licenseSets><licenseSet id="all"><license name="./LICENSE-HAL" title="HAL"/></licenseSet></licenseSets>
  <releases><release version="2.1.0-dev">now</release><release version="2.0.0" date="2026-01-01"/></releases>
  <examples><example name="../../etc/passwd"/></examples>
  <devices>
    <family Dfamily="Toy Series" Dvendor="Acme:77">
      <processor Dcore="Cortex-M4" DcoreVersion="r0p1" Dfpu="1" Dmpu="MPU" Dendian="Little-endian"/>
      <compile header="Device\\Include\\toy.h"/>
      <debug svd="SVD/toy.svd"/>
      <feature type="Temp" n="-40" m="85"/>
      <subFamily DsubFamily="Toy1">
        <processor Dclock="168000000"/>
        <compile define="TOY1xx"/>
        <memory name="Flash" access="rx" start="0x08000000" size="0x00080000" default="1" startup="1"/>
        <memory id="IRAM1" start="0x20000000" size="131072" default="true" init="0"/>
        <algorithm name="Flash/Toy1.FLM" start="0x08000000" size="0x80000" RAMstart="0x20000000" RAMsize="0x1000"
                   default="1"/>
        <feature type="Timer" n="2" m="32"/>
        <feature type="Timer" n="12" m="16"/>
        <device Dname="TOY101"/>
        <device Dname="TOY102">
          <memory name="Flash" size="0x100000"/>
          <debug svd="SVD/toy102.svd"/>
          <variant Dvariant="TOY102A"><compile define="TOY102A, USE_A=1"/></variant>
          <variant Dvariant="TOY102B"><memory name="CCM" access="rw" start="0x10000000" size="0x10000" uninit="1"/>
          </variant>
        </device>
      </subFamily>
      <subFamily DsubFamily="Toy2">
        <processor Pname="CM7" Dcore="Cortex-M7" Dfpu="DP_FPU" Dclock="480000000"/>
        <processor Pname="CM4" Dclock="240000000"/>
        <compile define="TOY2xx"/>
        <compile Pname="CM7" Pdefine="CORE_CM7" header="Device/Include/toy_cm7.h"/>
        <compile Pname="CM4" Pdefine="CORE_CM4"/>
        <debug Pname="CM7" svd="SVD/toy2_cm7.svd"/>
        <memory Pname="CM7" name="DTCM" access="rw" start="0x20000000" size="0x20000" default="1"/>
        <memory Pname="CM4" name="SRAM" access="rw" start="0x10000000" size="0x48000" default="1"/>
        <memory name="Shared" access="rwx" start="0x38000000" size="0x10000"/>
        <device Dname="TOY201"/>
      </subFamily>
    </family>
  </devices>
</package>
"""

ZEN = """<package>
  <vendor>Zen-Semi</vendor>
  <name>Z33</name>
  <releases><release version="1.0.0"/></releases>
  <devices>
    <family Dfamily="Z33" Dvendor="Zen">
      <device Dname="Z33A">
        <processor Dcore="Cortex-M33" Dfpu="SP_FPU" Dmpu="1" Dtz="TZ" Ddsp="DSP"/>
        <memory name="Flash_S" access="rxs" start="0x0C000000" size="0x100000" default="1" startup="1"/>
        <memory name="Flash_NS" access="rxn" start="0x08000000" size="0x100000" alias="Flash_S"/>
        <memory name="Gate" access="rxcc" start="0x0E000000" size="0x1000"/>
      </device>
      <device Dname="Z55A">
        <processor Dcore="Cortex-M55" Dfpu="DP_FPU" Dmve="FP_MVE" Dtz="TZ" Dpacbti="NO_PACBTI"/>
        <memory id="IROM1" start="4096" size="+4096"/>
        <memory name="Dev" start="0x40000000" size="0x1000"/>
      </device>
      <device Dname="Z99"><processor Dcore="Cortex-M99"/></device>
    </family>
  </devices>
</package>
"""


def parsed(text: str) -> Pack:
    return parse_pdsc(text.encode(), "a.pdsc")


def device(name: str, text: str = ACME) -> Device:
    return parsed(text).device(name)


def test_a_pack_has_names_releases_and_licences(tmp_path):
    path = tmp_path / "Acme.Toy_DFP.pdsc"
    path.write_text(ACME)
    pack = read_pdsc(path)
    assert (pack.vendor, pack.name, pack.version) == ("Acme", "Toy_DFP", "2.1.0-dev")
    assert pack.versions == ("2.1.0-dev", "2.0.0")
    assert pack.licences == ("Docs/LICENSE.txt", "LICENSE-HAL")
    assert str(pack) == "Acme::Toy_DFP@2.1.0-dev"
    assert [d.name for d in pack.devices] == ["TOY101", "TOY102", "TOY102A", "TOY102B", "TOY201"]


def test_a_device_inherits_from_its_family_and_subfamily():
    toy = device("TOY101")
    assert (toy.vendor, toy.vendor_id, toy.family, toy.subfamily, toy.base) == (
        "Acme",
        77,
        "Toy Series",
        "Toy1",
        "TOY101",
    )
    cpu = toy.processor()
    assert (cpu.core, cpu.core_revision, cpu.fpu, cpu.mpu, cpu.clock_hz) == (
        "Cortex-M4",
        "r0p1",
        "SP_FPU",
        True,
        168_000_000,
    )
    assert cpu.dsp and not cpu.trustzone and cpu.mve == "NO_MVE"
    assert (toy.header, toy.defines, toy.svd) == ("Device/Include/toy.h", ("TOY1xx",), "SVD/toy.svd")
    assert [(f.kind, f.n, f.m) for f in toy.features] == [
        ("Temp", "-40", "85"),
        ("Timer", "2", "32"),
        ("Timer", "12", "16"),
    ]
    (algorithm,) = toy.algorithms
    assert (algorithm.path, algorithm.size, algorithm.ram_size, algorithm.default) == (
        "Flash/Toy1.FLM",
        0x80000,
        0x1000,
        True,
    )


def test_a_memory_of_the_same_name_changes_only_what_it_says():
    flash, ram = device("TOY102").memories
    assert (flash.origin, flash.size, flash.access, flash.startup) == (0x0800_0000, 0x10_0000, "rx", True)
    assert (ram.name, ram.size, ram.access, ram.default, ram.uninit) == ("IRAM1", 131072, "rwx", True, False)
    assert device("TOY101").memories[0].size == 0x8_0000


def test_variants_inherit_from_their_device_and_not_from_each_other():
    a, b = device("toy102a"), device("TOY102B")
    assert (a.base, a.svd, a.defines) == ("TOY102", "SVD/toy102.svd", ("TOY102A", "USE_A=1"))
    assert b.defines == ("TOY1xx",)
    assert [m.name for m in a.memories] == ["Flash", "IRAM1"]
    assert [(m.name, m.uninit) for m in b.memories][-1] == ("CCM", True)


def test_two_processors_share_what_has_no_pname():
    toy = device("TOY201")
    cm7, cm4 = toy.processors
    assert (cm7.core, cm7.fpu, cm7.clock_hz) == ("Cortex-M7", "DP_FPU", 480_000_000)
    assert (cm4.core, cm4.fpu, cm4.mpu, cm4.clock_hz) == ("Cortex-M4", "SP_FPU", True, 240_000_000)
    assert (cm7.header, cm7.defines, cm7.svd) == (
        "Device/Include/toy_cm7.h",
        ("TOY2xx", "CORE_CM7"),
        "SVD/toy2_cm7.svd",
    )
    assert (cm4.header, cm4.defines, cm4.svd) == ("Device/Include/toy.h", ("TOY2xx", "CORE_CM4"), "SVD/toy.svd")
    assert [m.name for m in toy.memories_of("CM4")] == ["SRAM", "Shared"]
    with pytest.raises(PackError, match=r"has several processors\n.*one of: CM7, CM4"):
        toy.processor()
    with pytest.raises(PackError, match="no processor 'CM0'"):
        toy.processor("CM0")


def test_trustzone_memories_say_which_world_they_are_of():
    z33 = device("Z33A", ZEN)
    assert [(m.secure, m.non_secure, m.access) for m in z33.memories] == [
        (True, False, "rxs"),
        (False, True, "rxn"),
        (True, False, "rxc"),
    ]
    assert z33.memories[1].alias == "Flash_S" and z33.vendor_id == 0
    assert z33.processor().trustzone and z33.processor().dsp


def test_legacy_ids_imply_access_and_unknown_cores_are_kept():
    z55 = device("Z55A", ZEN)
    assert [(m.name, m.origin, m.size, m.access) for m in z55.memories] == [
        ("IROM1", 4096, 4096, "rx"),
        ("Dev", 0x4000_0000, 0x1000, "r"),
    ]
    assert (z55.processor().mve, z55.processor().pacbti) == ("FP_MVE", False)
    assert device("Z99", ZEN).processor().core == "Cortex-M99"


def test_an_unknown_device_is_refused_with_similar_names():
    with pytest.raises(PackError, match=r"has no device 'TOY103'\n.*TOY10"):
        device("TOY103")


def test_utf_16_and_byte_order_marks_are_read():
    assert parse_pdsc(ACME.replace("utf-8", "utf-16").encode("utf-16"), "a.pdsc") == parsed(ACME)
    assert parse_pdsc(b"\xef\xbb\xbf" + ACME.encode(), "a.pdsc") == parsed(ACME)


WRONG = [
    ('size="131072"', 'size="lots"', "<memory id='IRAM1'>: size='lots' is no number"),
    ('size="131072"', 'size="0x1' + "0" * 16 + '"', "size='0x10000000000000000' is too large"),
    ('size="131072"', 'size="' + "9" * 5000 + '"', "size has more than 512 characters"),
    ('size="131072"', 'size="-1"', "size='-1' is no number"),
    ('size="131072"', 'size="٣"', "is no number"),
    ('size="131072" ', "", "<memory id='IRAM1'>: attribute size is missing"),
    ('start="0x20000000" size="131072"', 'start="0xFFFFFFFFFFFFFFFF" size="2"', "ends beyond the 64-bit address space"),
    ('default="true"', 'default="maybe"', "default='maybe' is neither true nor false"),
    ('access="rx"', 'access="rq"', "access='rq' is unknown"),
    ('memory id="IRAM1"', "memory", "<memory>: attribute id is missing"),
    ('Dfpu="1"', 'Dfpu="QUAD"', "<processor>: Dfpu='QUAD' is unknown"),
    ('Dclock="168000000"', 'Dclock="1e9"', "<processor>: Dclock='1e9' is no number"),
    ('Dclock="168000000"', 'Dclock="999999999999"', "is too large"),
    ('Dcore="Cortex-M4" ', "", "<processor>: attribute Dcore is missing"),
    ("<device Dname=", "<device Name=", "<device>: attribute Dname is missing"),
    ('Dname="TOY102"', 'Dname="TOY101"', "<device Dname='TOY101'>: a second device of this name"),
    ('Dvendor="Acme:77"', 'Dvendor="Acme:x"', "Dvendor='Acme:x' is no vendor"),
    ('define="TOY1xx"', 'define="X -I/etc"', "<compile>: define names the macro '-I/etc'"),
    ('svd="SVD/toy.svd"', 'svd="/etc/toy.svd"', "<debug>: svd='/etc/toy.svd' is no path in the pack"),
    ('svd="SVD/toy.svd"', 'svd="SVD/../../toy.svd"', "leads out of the pack"),
    ('svd="SVD/toy.svd"', 'svd="SVD\\..\\toy.svd"', "leads out of the pack"),
    ('svd="SVD/toy.svd"', 'svd="SVD/.. /toy.svd"', "leads out of the pack"),
    ('svd="SVD/toy.svd"', 'svd="C:\\toy.svd"', "is no path in the pack"),
    ('svd="SVD/toy.svd"', 'svd="\\\\host\\toy.svd"', "is no path in the pack"),
    ('svd="SVD/toy.svd"', 'svd="SVD/&#10;toy.svd"', "svd='SVD/\\ntoy.svd' holds control characters"),
    ('name="Flash/Toy1.FLM"', 'name="./"', "names no file"),
    ("Docs\\LICENSE.txt", "../LICENSE.txt", "<license>"),
    ("<name>Toy_DFP</name>", "<name>../Toy</name>", "<name>: name is '../Toy'"),
    ("<name>Toy_DFP</name>", "", "<package>: <name> is missing or empty"),
    ('version="2.1.0-dev"', 'version="../2"', "<release>: version '../2' is none"),
    ('version="2.1.0-dev"', "", "<release>: attribute version is missing"),
    ("</devices>", "</device>", "not well-formed XML"),
    ("utf-8", "hex", "encoding 'hex' is not supported"),
    ("utf-8", "no-such", "encoding 'no-such' is not supported"),
]


@pytest.mark.parametrize(("old", "new", "message"), WRONG, ids=range(len(WRONG)))
def test_a_mistake_is_reported_with_file_line_and_element(old, new, message):
    assert old in ACME
    with pytest.raises(PackError) as caught:
        parsed(ACME.replace(old, new, 1))
    assert re.match(r"a\.pdsc, line \d+: ", caught.value.message)
    assert message in caught.value.message


def test_the_line_of_a_mistake_is_right():
    with pytest.raises(PackError) as caught:
        parsed(ACME.replace('size="131072"', 'size="lots"'))
    line = next(number for number, text in enumerate(ACME.splitlines(), 1) if "131072" in text)
    assert caught.value.message.startswith(f"a.pdsc, line {line}: ")


def test_a_document_of_another_kind_is_no_pack():
    with pytest.raises(PackError, match=r"a\.pdsc, line 1: <html>: this is no pack description"):
        parsed("<html/>")
    with pytest.raises(PackError, match="not well-formed"):
        parsed("")
    with pytest.raises(PackError, match="has no <release>"):
        parsed("<package><vendor>A</vendor><name>B</name></package>")
    with pytest.raises(PackError, match="the device has no <processor>"):
        parsed(re.sub("<processor.*?/>", "", ZEN))


@pytest.mark.parametrize(
    "bomb",
    [
        '<!DOCTYPE p [<!ENTITY a "ha"><!ENTITY b "&a;&a;">]>',
        '<!DOCTYPE p SYSTEM "file:///etc/passwd">',
        '<!DOCTYPE p [<!ENTITY % x SYSTEM "http://127.0.0.1/x">%x;]>',
    ],
)
def test_document_types_and_with_them_entities_are_refused(bomb):
    with pytest.raises(PackError, match=r"a\.pdsc, line 1: a document type is declared"):
        parsed(bomb + "<package/>")


def test_nesting_and_multiplication_are_bounded():
    start = time.monotonic()
    with pytest.raises(PackError, match="nest deeper than 64"):
        parsed("<package>" + "<boards>" * 100_000)
    with pytest.raises(PackError, match="more than 500,000 elements"):
        parsed("<package>" + "<a/>" * 500_001 + "</package>")
    with pytest.raises(PackError, match="more than 100 attributes, or one with a long name"):
        parsed("<package " + " ".join(f'a{i}=""' for i in range(101)) + "/>")
    memories = "".join(f'<memory name="m{i}" start="0" size="1"/>' for i in range(2000))
    devices = "".join(f'<device Dname="d{i}"/>' for i in range(2000))
    many = re.sub("(?s)<processor Dcore=.Cortex-M33.*?/>", lambda found: found[0] + memories, ZEN)
    many = many.replace("</family>", f"<processor Dcore='x'/>{memories}{devices}</family>")
    with pytest.raises(PackError, match="inherit more than 1,000,000 properties"):
        parsed(many)
    assert time.monotonic() - start < 20


def test_files_that_are_absent_or_too_large_are_refused(tmp_path, monkeypatch):
    with pytest.raises(PackError, match=r"none\.pdsc' is no file"):
        read_pdsc(tmp_path / "none.pdsc")
    with pytest.raises(PackError, match="is no file"):
        read_pdsc(tmp_path / ("x\0" * 3))
    path = tmp_path / "big.pdsc"
    path.write_text(ZEN)
    monkeypatch.setattr("cmsis_packs.safe_xml.LARGEST_FILE", 100)
    with pytest.raises(PackError, match="more than 100 bytes"):
        read_pdsc(path)


def mutated(generator: random.Random, data: bytes) -> bytes:
    """``data`` with a few bytes, quoted values or lines changed, moved or lost."""
    for _ in range(generator.randrange(1, 4)):
        at, count = generator.randrange(len(data)), generator.randrange(1, 40)
        match generator.randrange(5):
            case 0:
                data = data[:at] + generator.randbytes(generator.randrange(3)) + data[at + 1 :]
            case 1:
                data = data[:at] + data[at + count :]
            case 2:
                data = data[:at] + data[at : at + count] * 2 + data[at + count :]
            case 3:
                values = [
                    b"",
                    b"0x",
                    b"-1",
                    b"9" * 5000,
                    b"../x",
                    b"*[",
                    b"&amp;",
                    "é\u2028".encode(),
                    b"1.2.3:",
                    b"a:b",
                ]
                quotes = list(re.finditer(rb'"[^"]*"', data)) or [re.search(rb"", data)]
                found = generator.choice(quotes)
                data = data[: found.start()] + b'"' + generator.choice(values) + b'"' + data[found.end() :]
            case _:
                lines = data.splitlines(True)
                generator.shuffle(lines) if generator.random() < 0.1 else lines.pop(generator.randrange(len(lines)))
                data = b"".join(lines) or b"<a/>"
    return data


def test_a_damaged_file_parses_or_raises_the_projects_error():
    generator = random.Random(20261201)
    outcomes = {True: 0, False: 0}
    for _ in range(200):
        data = mutated(generator, ACME.encode())
        try:
            pack = parse_pdsc(data, "a.pdsc")
            outcomes[True] += isinstance(pack, Pack)
        except Error as error:
            assert len(str(error)) < 2000
            outcomes[False] += 1
    assert min(outcomes.values()) > 20


def test_nothing_but_errors_and_files_is_imported_from_the_compiler():
    allowed = {f"tvm_stm32.{name}" for name in ("cnames", "errors", "files", "templates", "yaml_files")}
    for path in (ROOT / "cmsis_packs").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert all(not n.startswith("tvm") or n in allowed for n in names), path


PARTS = """<package>
  <vendor>Parts</vendor>
  <name>Lib</name>
  <releases><release version="3.0.0"/></releases>
  <conditions>
    <condition id="empty"/>
    <condition id="Toy"><require Dvendor="Acme:77" Dname="TOY*"/></condition>
    <condition id="Toy unnumbered"><require Dvendor="Acme" Dname="TOY[12]0?*"/></condition>
    <condition id="M4 or M7"><accept Dcore="Cortex-M4"/><accept Dcore="Cortex-M7"/></condition>
    <condition id="with FPU"><require condition="M4 or M7"/><deny Dfpu="NO_FPU"/></condition>
    <condition id="GCC"><require Tcompiler="GCC"/></condition>
    <condition id="Arm"><require Tcompiler="ARMCC"/></condition>
    <condition id="Toy GCC"><require condition="Toy"/><require condition="GCC"/></condition>
    <condition id="Secure"><require Dtz="TZ" Dsecure="Secure"/></condition>
    <condition id="worlds"><require Dtz="TZ"/><deny Dsecure="TZ-disabled"/></condition>
    <condition id="needs HAL"><require condition="with FPU"/><require Cclass="Device" Cgroup="HAL*"/></condition>
    <condition id="needs HAL 2"><require Cclass="Device" Cgroup="HAL" Cversion="2.0.0:2.9.9"/></condition>
    <condition id="without OS"><deny Cclass="OS"/></condition>
    <condition id="with OS"><require Cclass="OS"/></condition>
    <condition id="any HAL"><accept Cclass="Device" Cgroup="LL"/><accept condition="needs HAL 2"/></condition>
    <condition id="loop"><require condition="pool"/></condition>
    <condition id="pool"><accept condition="loop"/></condition>
    <condition id="gap"><require condition="nowhere"/></condition>
  </conditions>
  <apis>
    <api Cclass="Sensor" Cgroup="Temp" Capiversion="1.0.0">
      <files><file category="header" name="Old/temp.h"/></files>
    </api>
    <api Cclass="Sensor" Cgroup="Temp" Capiversion="1.1.0">
      <files><file category="header" name="API/temp.h"/></files>
    </api>
  </apis>
  <components>
    <component Cclass="Device" Cgroup="HAL" Cversion="1.9.0" condition="Toy"><files/></component>
    <component Cclass="Device" Cgroup="HAL" Cversion="1.10.0" condition="Toy">
      <RTE_Components_h>
        #define RTE_HAL
        #define RTE_HAL_1
      </RTE_Components_h>
      <files>
        <file category="header" name="HAL\\Inc\\hal.h"/>
        <file category="header" name="HAL/Inc/hal2.h"/>
        <file category="header" name="HAL/Hidden/hidden.h" scope="hidden"/>
        <file category="include" name="HAL/Legacy/"/>
        <file category="header" name="HAL/Conf/hal_conf.h" attr="config" version="1.1.0"/>
        <file category="source" name="HAL/Src/hal.c"/>
        <file category="sourceAsm" name="HAL/Src/gcc.s" condition="GCC"/>
        <file category="sourceAsm" name="HAL/Src/arm.s" condition="Arm"/>
        <file category="source" name="HAL/Src/fpu.c" condition="with FPU"/>
        <file category="source" name="HAL/Src/secure.c" condition="Secure"/>
        <file category="source" name="HAL/Src/api.c" condition="worlds"/>
        <file category="source" name="HAL/Src/os.c" condition="with OS"/>
        <file category="source" name="HAL/Src/bare.c" condition="without OS"/>
        <file category="source" name="HAL/Templates/main.c" attr="template" select="An example"/>
        <file category="library" name="HAL/Lib/libhal.a"/>
        <file category="linkerScript" name="HAL/hal.ld" attr="config"/>
        <file category="linkerScript" name="HAL/fixed.ld"/>
        <file category="doc" name="https://acme.example/hal.html"/>
      </files>
    </component>
    <component Cclass="Device" Cgroup="Startup" Cvariant="asm"><files/></component>
    <component Cclass="Device" Cgroup="Startup" Cvariant="C" isDefaultVariant="1"><files/></component>
    <component Cclass="Sensor" Cgroup="Temp" Csub="A"><files/></component>
    <component Cclass="Sensor" Cgroup="Temp" Csub="B"><files/></component>
    <component Cclass="OS" Cgroup="Core" Cvendor="Other" Cversion="5.0.0"><files/></component>
    <component Cclass="Net" Cgroup="Core" condition="needs HAL"><files/></component>
    <component Cclass="Net" Cgroup="New" condition="needs HAL 2"><files/></component>
    <component Cclass="Net" Cgroup="Any" condition="any HAL"><files/></component>
    <component Cclass="Net" Cgroup="Loop" condition="loop"><files/></component>
    <component Cclass="Net" Cgroup="Gap" condition="gap"><files/></component>
    <component Cclass="Net" Cgroup="Plain" condition="empty"><files/></component>
    <component Cclass="Net" Cgroup="Unnumbered" condition="Toy unnumbered"><files/></component>
    <bundle Cbundle="Graph" Cclass="GUI" Cversion="4.2.0" Cvendor="Bundler">
      <description>x</description>
      <component Cgroup="Core">
        <files><file category="source" name="gui.c"/><file category="header" name="gui.h"/></files>
      </component>
      <component Cgroup="Font" Cversion="4.3.0" Cvendor="Parts"><files/></component>
    </bundle>
  </components>
</package>
"""


def resolved(*components: str, name: str = "TOY101", **options) -> Resolution:
    source = ZEN if name.startswith("Z") else ACME
    return resolve(parsed(PARTS), device(name, source), components, **options)


def paths(files) -> list[str]:
    return [file.path for file in files]


def test_files_are_sorted_by_what_a_build_does_with_them():
    found = resolved("Device:HAL")
    assert paths(found.sources) == ["HAL/Src/hal.c", "HAL/Src/gcc.s", "HAL/Src/fpu.c", "HAL/Src/bare.c"]
    assert found.include_folders == ("HAL/Inc", "HAL/Legacy")
    assert [(f.path, f.version) for f in found.config_files] == [("HAL/Conf/hal_conf.h", "1.1.0"), ("HAL/hal.ld", "")]
    assert paths(found.libraries) == ["HAL/Lib/libhal.a"] and paths(found.linker_scripts) == ["HAL/fixed.ld"]
    assert found.rte_components_h == ("#define RTE_HAL\n#define RTE_HAL_1",)


def test_conditions_of_files_see_compiler_components_and_processor():
    found = resolved("Device:HAL", "OS:Core", compiler="ARMCC")
    assert paths(found.sources) == ["HAL/Src/hal.c", "HAL/Src/arm.s", "HAL/Src/fpu.c", "HAL/Src/os.c"]
    assert paths(resolved("Device:HAL", name="TOY201", processor="CM4").sources)[2] == "HAL/Src/fpu.c"
    with pytest.raises(PackError, match="has several processors"):
        resolved("Device:HAL", name="TOY201")


def test_secure_files_need_a_secure_build():
    pack = parsed(PARTS.replace('Dvendor="Acme:77" Dname="TOY*"', 'Dvendor="Zen:5" Dname="Z*"'))
    z33 = device("Z33A", ZEN)
    for security, taken in {"TZ-disabled": [], "Non-secure": ["api"], "Secure": ["secure", "api"]}.items():
        files = resolve(pack, z33, ["Device:HAL"], security=security).sources
        assert [f for f in ("secure", "api") if f"HAL/Src/{f}.c" in paths(files)] == taken


def test_the_newest_version_and_the_default_variant_are_taken():
    assert resolved("Device:HAL").components[0].version == "1.10.0"
    assert resolved("Device:HAL@1.9.0").components[0].version == "1.9.0"
    assert resolved("Device:HAL@^1.0.0").components[0].version == "1.10.0"
    assert resolved("Device:Startup").components[0].variant == "C"
    assert resolved("Parts::Device:Startup&asm").components[0].variant == "asm"


def test_components_of_bundles_inherit_class_vendor_and_version():
    core, font = (resolved(text).components[0] for text in ("GUI&Graph:Core", "GUI:Font"))
    assert str(core) == "Bundler::GUI&Graph:Core@4.2.0"
    assert str(font) == "Parts::GUI&Graph:Font@4.3.0"
    assert resolved("Bundler::GUI:Core").include_folders == (".",)


def test_vendors_match_by_number_when_both_have_one():
    assert resolved("Net:Unnumbered", "Net:Plain").components[1].group == "Plain"
    toys = parsed(PARTS.replace("Acme:77", "Renamed:77"))
    assert resolve(toys, device("TOY101"), ["Device:HAL"]).components
    with pytest.raises(PackError, match="is not for device 'TOY101'"):
        resolve(parsed(PARTS.replace("Acme:77", "Acme:78")), device("TOY101"), ["Device:HAL"])


def test_what_is_missing_is_named_with_what_to_add():
    with pytest.raises(PackError) as caught:
        resolved("Net:Core")
    assert caught.value.message == "component 'Parts::Net:Core' lacks something on device 'TOY101'"
    assert caught.value.why == (
        "condition 'needs HAL': require Cclass='Device' Cgroup='HAL*', and no such component is chosen"
    )
    assert caught.value.hint == "add one of: Parts::Device:HAL@1.9.0, Parts::Device:HAL@1.10.0"
    assert len(resolved("Net:Core", "Device:HAL").components) == 2
    with pytest.raises(PackError, match=r"Cversion='2.0.0:2.9.9'.*\n.*a component of another pack"):
        resolved("Net:New", "Device:HAL")
    with pytest.raises(PackError, match="none of: accept Cclass='Device' Cgroup='LL'; accept condition='needs HAL 2'"):
        resolved("Net:Any", "Device:HAL")


def test_components_of_other_packs_count():
    hal = parsed(PARTS.replace("1.10.0", "2.5.0")).components[1]
    found = resolved("Net:New", "Net:Any", others=[hal])
    assert paths(found.sources) == [] and [c.group for c in found.components] == ["New", "Any"]


def test_interfaces_come_with_the_components_that_implement_them():
    assert resolved("Sensor:Temp:A").include_folders == ("API",)
    sensor = parsed(PARTS.replace("<vendor>Parts", "<vendor>Elsewhere")).components[4]
    assert resolved("Net:Plain", others=[sensor]).include_folders == ("API",)
    assert resolved("Net:Plain").include_folders == ()


def test_a_component_for_other_devices_says_why():
    with pytest.raises(PackError) as caught:
        resolved("Net:Core", "Device:HAL", name="Z33A")
    assert caught.value.message == "component 'Net:Core' is not for device 'Z33A'"
    assert caught.value.why == "condition 'M4 or M7': none of: accept Dcore='Cortex-M4'; accept Dcore='Cortex-M7'"


@pytest.mark.parametrize(
    ("components", "message"),
    [
        (
            ["Sensor:Temp"],
            "'Sensor:Temp' names several components\n  try: one of: Parts::Sensor:Temp:A, Parts::Sensor:Temp:B",
        ),
        (["Sensor:Humidity"], "has no component 'Sensor:Humidity'\n  try: one of: Parts::Sensor:Temp:A"),
        (["Device:HAL@7.0.0"], "has no component 'Device:HAL@7.0.0'"),
        (["Sensor"], "'Sensor' names no component"),
        (["a" * 5000], "names no component"),
        (["Device:Startup&asm", "Device:Startup&C"], "exclude each other"),
        (["Net:Loop"], "condition 'loop' depends on itself"),
        (["Net:Gap"], "component 'Parts::Net:Gap': condition 'nowhere' is not in the pack"),
    ],
)
def test_a_wrong_choice_of_components_is_explained(components, message):
    with pytest.raises(PackError) as caught:
        resolved(*components)
    assert message in str(caught.value)


def test_conditions_that_fan_out_or_nest_without_end_are_answered_at_once():
    def chain(count: int) -> str:
        names = [
            f'<condition id="c{i}">' + f'<require condition="c{i + 1}"/>' * 2 + "</condition>" for i in range(count)
        ]
        return PARTS.replace('<condition id="empty"/>', f'<condition id="c{count}"/>' + "".join(names)).replace(
            'condition="empty"', 'condition="c0"'
        )

    start = time.monotonic()
    assert resolve(parsed(chain(60)), device("TOY101"), ["Net:Plain"]).components
    with pytest.raises(PackError, match="nests deeper than 64"):
        resolve(parsed(chain(5000)), device("TOY101"), ["Net:Plain"])
    stars = parsed(PARTS.replace('Dname="TOY*"', 'Dname="' + "*a" * 200 + '"'))
    with pytest.raises(PackError, match="is not for device"):
        resolve(stars, device("TOY101"), ["Device:HAL"])
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('name="HAL/Src/hal.c"', 'name="../hal.c"', "<file name='../hal.c'>: name='../hal.c' leads out of the pack"),
        ('name="HAL/Src/hal.c"', 'name="/usr/hal.c"', "is no path in the pack"),
        ('name="HAL/Src/hal.c"', 'name="https://x.example/hal.c"', "is no path in the pack"),
        ('name="HAL/Src/hal.c"', "", "<file>: attribute name is missing"),
        ('category="source" name="HAL/Src/hal.c"', 'name="a.c"', "attribute category is missing"),
        ('attr="template"', 'attr="odd"', "attr='odd' is unknown"),
        ('isDefaultVariant="1"', 'isDefaultVariant="yes"', "isDefaultVariant='yes' is neither true nor false"),
        ('Cgroup="Startup" Cvariant="asm"', "", "<component>: attribute Cgroup is missing"),
        ('Cbundle="Graph"', "", "<bundle>: attribute Cbundle is missing"),
        ('id="pool"', 'id="loop"', "<condition id='loop'>: a second condition of this id"),
        ('id="pool"', "", "<condition>: attribute id is missing"),
    ],
)
def test_a_mistake_in_components_is_reported_with_its_line(old, new, message):
    assert old in PARTS
    with pytest.raises(PackError) as caught:
        parsed(PARTS.replace(old, new, 1))
    assert re.match(r"a\.pdsc, line \d+: ", caught.value.message) and message in caught.value.message


def test_versions_are_ordered_as_semantic_versions():
    ordered = [
        "0.9",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-rc.2",
        "1.0.0-rc.10",
        "1.0.0",
        "1.0.1",
        "1.10",
    ]
    assert sorted(random.Random(1).sample(ordered, len(ordered)), key=version_key) == ordered
    assert version_key("1.0.0+build.7") == version_key("1.0")
    assert in_range("1.2.0", "1.2.0") and in_range("1.9.9", "1.2.0:1.9.9") and not in_range("2.0.0", ":1.9.9")
    wanted = ("1.2.3", ">=1.0.0", "^1.0.0", "~1.2.0", "^2.0.0", "~1.1.0", ">=1.2.4")
    assert [satisfies("1.2.3", text) for text in wanted] == [True] * 4 + [False] * 3


def test_damaged_conditions_and_components_resolve_or_raise_the_projects_error():
    generator = random.Random(7)
    toy = device("TOY101")
    outcomes = {True: 0, False: 0}
    for _ in range(200):
        try:
            pack = parse_pdsc(mutated(generator, PARTS.encode()), "a.pdsc")
            outcomes[True] += 1
        except Error:
            outcomes[False] += 1
            continue
        for component in pack.components:
            try:
                resolve(pack, toy, [str(component), "Device:HAL"])
            except Error as error:
                assert len(str(error)) < 10_000
    assert min(outcomes.values()) > 20


def test_packs_say_what_they_require_and_where_old_releases_are() -> None:
    text = """<package><vendor>A</vendor><name>P</name>
      <licenseSets><licenseSet><license name="L.txt" spdx="Apache-2.0"/></licenseSet></licenseSets>
      <releases><release version="2.0.0"/><release version="1.0.0" url="https://old.example/A.P.1.0.0.pack"/></releases>
      <requirements><packages><package vendor="B" name="Q" version="1.0.0:2.0.0-"/><package vendor="C" name="R"/>
      </packages><languages><language name="C"/></languages></requirements></package>"""
    pack = parse_pdsc(text.encode(), "A.P.pdsc")
    assert [(r.vendor, r.name, r.versions) for r in pack.requirements] == [("B", "Q", "1.0.0:2.0.0-"), ("C", "R", "")]
    assert pack.release_urls == {"1.0.0": "https://old.example/A.P.1.0.0.pack"} and pack.spdx == ("Apache-2.0",)
    assert in_range("1.9.9", "1.0.0:2.0.0-") and not in_range("2.0.0-rc1", "1.0.0:2.0.0-")
    with pytest.raises(PackError, match=r"version='\.\./1' is no range"):
        parse_pdsc(text.replace("1.0.0:2.0.0-", "../1").encode(), "A.P.pdsc")
