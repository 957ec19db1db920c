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


def test_nothing_but_errors_is_imported_from_the_compiler():
    for path in (ROOT / "cmsis_packs").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert all(not n.startswith("tvm") or n == "tvm_stm32.errors" for n in names), path
