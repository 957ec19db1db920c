"""One Thumb instruction as a cycle model sees it: its class, and which registers it reads (when) and writes.

Decoding starts from the disassembler's text, so an instruction it can print needs no entry here unless its timing is
special; one that is unknown counts as a plain data-processing instruction.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Kind = Literal[
    "alu",  # data processing with plain operands
    "shift",  # a shift or rotation as such
    "shifted",  # data processing with an inline shifted operand
    "bits",  # bit fields, extension, packing, saturation, SIMD
    "mul",  # 32-bit multiply, with or without accumulation
    "mull",  # 64-bit multiply
    "div",
    "load",
    "store",
    "loads",  # LDRD, LDM, POP, VLDM
    "stores",
    "branch",
    "table",
    "loop",  # low-overhead loop
    "it",
    "nop",
    "system",
    "transfer",  # VMOV between core and FP registers
    "fadd",
    "fmul",
    "fma",
    "fdiv",
    "vload",  # MVE
    "vstore",
    "vint",
    "vmul",
]
"""Timing classes."""

Role = Literal["late", "early", "address", "factor", "accumulator", "data"]
"""How an instruction uses a register it reads: ``early`` operands pass a shifter first, ``data`` is stored."""


@dataclass(frozen=True)
class Instruction:
    """``words`` counts registers of multiple transfers, ``width`` is in bytes, ``shift`` an inline shift's name.

    ``base`` is the register of ``[base, ...]``, ``updates`` whether it is written back, ``indexed`` whether a register
    is added to it. ``indirect`` tells branches whose target comes from a register or from memory.
    """

    address: int
    width: int
    name: str
    kind: Kind
    reads: tuple[tuple[str, Role], ...] = ()
    writes: frozenset[str] = frozenset()
    words: int = 1
    shift: str = ""
    base: str = ""
    updates: bool = False
    indexed: bool = False
    sets_flags: bool = False
    indirect: bool = False
    bits: int = 32
    lanes: int = 0

    @property
    def end(self) -> int:
        """Address of the instruction after it."""
        return self.address + self.width

    @property
    def branches(self) -> bool:
        """Whether it may go elsewhere than to the next instruction."""
        return self.kind in ("branch", "table", "loop") or self.indirect

    def reads_as(self, *roles: Role) -> set[str]:
        """Registers it reads in one of these roles."""
        return {register for register, role in self.reads if role in roles}


def names(text: str) -> frozenset[str]:
    """Mnemonics written with blanks between them."""
    return frozenset(text.split())


_CONDITIONS = "eq|ne|cs|cc|mi|pl|vs|vc|hi|ls|ge|lt|gt|le"
_ALIASES = {"sb": "r9", "sl": "r10", "fp": "r11", "ip": "r12", "sp": "r13", "lr": "r14", "pc": "r15"}
_PLAIN = names(
    "adc add adr and bic eor mov movt movw mvn neg orn orr rsb sbc sub cmn cmp teq tst addw subw csel cset csinc"
)
_SHIFTS = names("asr lsl lsr ror rrx")
_BITS = names(
    """bfc bfi clz rbit rev rev16 revsh sbfx ubfx ssat usat ssat16 usat16 sel pkhbt pkhtb sxtb sxth uxtb uxth sxtb16
    uxtb16 sxtab sxtah uxtab uxtah sxtab16 uxtab16 qadd qsub qdadd qdsub"""
)
_SIMD = r"[su]h?(add|sub)(8|16)|[su]h?(asx|sax)|u?q(add|sub)(8|16)|u?q(asx|sax)"
_MULTIPLY = r"mul|mla|mls|smul[bt][bt]|smla[bt][bt]|smulw[bt]|smlaw[bt]|smml[as]r?|smmulr?|sm[lu][as]dx?|usada?8"
_MULTIPLY_LONG = r"[su]mull|[su]mlal|umaal|smlal([bt][bt]|dx?)|smlsldx?"
_BRANCHES = names("b bl bx blx cbz cbnz tbb tbh")
_LOOPS = names("le letp wls wlstp dls dlstp lctp")
_SYSTEM = names("mrs msr dsb dmb isb svc bkpt udf")
_TRANSFERS = names(
    """ldr ldrb ldrh ldrsb ldrsh ldrex str strb strh strex ldrd strd ldm ldmia ldmdb ldmfd stm stmia stmdb push pop"""
)
_KNOWN = frozenset().union(
    _PLAIN, _SHIFTS, _BITS, _BRANCHES, _LOOPS, _SYSTEM, _TRANSFERS, ("it", "nop", "sdiv", "udiv")
)
_NO_RESULT = names("cmp cmn tst teq vcmp vcmpe")
# With two operands the first is also a source.
_TWO_OPERANDS = names("add sub adc sbc and orr eor bic orn mul lsl lsr asr ror addw subw")
# Its first operand is also a source.
_UPDATING = names("movt bfi bfc vfma vfms vfnma vfnms vmla vmls vfmas vmlas vsli vsri vmovnt vmovnb")
_FLOAT_KINDS: dict[str, Kind] = {
    "vmul": "fmul",
    "vnmul": "fmul",
    "vdiv": "fdiv",
    "vsqrt": "fdiv",
    "vmov": "transfer",
    **dict.fromkeys(names("vfma vfms vfnma vfnms vmla vmls vnmla vnmls"), "fma"),
    **dict.fromkeys(
        names("vadd vsub vabs vneg vcmp vcmpe vcvt vcvtr vmrs vmsr vrintz vrintr vmaxnm vminnm vsel"), "fadd"
    ),
}
# MVE instructions of the multiply and floating-point pipe; the others are of the integer pipe (LLVM ARMScheduleM55.td).
_VECTOR_MULTIPLY = re.compile(r"v(q?r?d?mul|q?r?d?ml[as]|r?ml[as]|mul|fm|c?mla|cmul|cmp|pt|addl?v|cvt|rint|m(ax|in)nm)")


def decode(address: int, width: int, text: str) -> Instruction:
    """The instruction that objdump prints as ``text``, ``width`` bytes long."""
    word, _, rest = text.strip().partition(" ") if "\t" not in text else text.strip().partition("\t")
    name, kinds = _split_name(word.lower())
    operands = _operands(rest)
    if name in ("it", "nop"):
        return Instruction(address, width, name, "it" if name == "it" else "nop")
    if name.startswith("v"):
        return _vector_or_float(address, width, name, kinds, operands)
    if name in _BRANCHES:
        return _branch(address, width, name, operands)
    if name in _LOOPS:
        reads: tuple[tuple[str, Role], ...] = tuple((register, "late") for register in _registers(" ".join(operands)))
        return Instruction(address, width, name, "loop", reads, frozenset({"r14"}))
    if name.startswith(("ldm", "stm")) or name in ("push", "pop", "ldrd", "strd"):
        return _multiple(address, width, name, operands)
    if name.startswith(("ldr", "str")):
        return _single(address, width, name, operands)
    return _processing(address, width, name, word, operands)


def _split_name(word: str) -> tuple[str, list[str]]:
    """The mnemonic without width, condition and S, and its type suffixes."""
    name, *suffixes = word.split(".")
    kinds = [suffix for suffix in suffixes if suffix not in ("w", "n")]
    if _known(name):
        return name, kinds
    if re.match(r"it[te]*$", name):
        return "it", kinds
    conditional = re.match(rf"(.+?)({_CONDITIONS})$", name)
    # VMULLT.S8 and VMOVLT.S16 are instructions of MVE, VMULLT.F32 is a VMUL under a condition.
    vector = name.startswith("v") and any(re.match(r"[suip]\d", kind) for kind in kinds)
    if conditional is not None and _known(conditional[1]) and not vector:
        return conditional[1], kinds
    if name.endswith("s") and _known(name[:-1]):
        return name[:-1], kinds
    return name, kinds


def _known(name: str) -> bool:
    if name in _KNOWN or name in _FLOAT_KINDS:
        return True
    return re.fullmatch(f"{_SIMD}|{_MULTIPLY}|{_MULTIPLY_LONG}", name) is not None


def _operands(text: str) -> list[str]:
    """Split at the commas outside brackets; comments and branch targets' names are dropped."""
    text = re.split(r"\s*[@;<]", text, maxsplit=1)[0]
    return [part.strip() for part in re.split(r",(?![^\[{]*[\]}])", text) if part.strip()]


def _registers(text: str) -> list[str]:
    """Registers named in a text, ranges written out; d and q registers as the single-precision ones they hold."""
    found: list[str] = []
    for first, last in re.findall(r"\b([rsdq]\d+|s[bpl]|fp|ip|lr|pc)(?:-([rsdq]\d+))?\b", text):
        first = _ALIASES.get(first, first)
        letter, start = first[0], int(first[1:])
        size = {"d": 2, "q": 4}.get(letter, 1)
        for number in range(start, (int(last[1:]) if last else start) + 1):
            if size == 1:
                found.append(f"{letter}{number}")
            else:
                found += [f"s{number * size + part}" for part in range(size)]
    return found


def _branch(address: int, width: int, name: str, operands: list[str]) -> Instruction:
    if name in ("tbb", "tbh"):
        reads: tuple[tuple[str, Role], ...] = tuple((r, "address") for r in _registers(operands[0]))
        return Instruction(address, width, name, "table", reads, indirect=True)
    indirect = name in ("bx", "blx") and bool(_registers(operands[0]))
    reads = ()
    if indirect or name in ("cbz", "cbnz"):
        reads = tuple((register, "late") for register in _registers(operands[0]))
    writes = frozenset({"r14"}) if name in ("bl", "blx") else frozenset()
    return Instruction(address, width, name, "branch", reads, writes, indirect=indirect)


def _multiple(address: int, width: int, name: str, operands: list[str]) -> Instruction:
    load = name.startswith(("ld", "pop", "vld", "vpop"))
    if name in ("ldrd", "strd"):
        registers, place = _registers(" ".join(operands[:2])), " ".join(operands[2:])
        base, updates = _registers(place)[:1], "!" in place or len(operands) > 3
    elif name in ("push", "pop", "vpush", "vpop"):
        registers, base, updates = _registers(operands[0]), ["r13"], True
    else:
        registers, base, updates = _registers(operands[1]), _registers(operands[0]), operands[0].endswith("!")
    reads: list[tuple[str, Role]] = [(register, "address") for register in base]
    if not load:
        reads += [(register, "data") for register in registers]
    return Instruction(
        address,
        width,
        name,
        "loads" if load else "stores",
        tuple(reads),
        frozenset(registers if load else []),
        words=len(registers),
        base=base[0] if base else "",
        updates=updates,
        indirect="r15" in registers and load,
    )


def _single(address: int, width: int, name: str, operands: list[str]) -> Instruction:
    load = name.startswith(("ld", "vld"))
    registers, place = _registers(operands[0]), " ".join(operands[1:])
    inside = _registers(place)
    reads: list[tuple[str, Role]] = [(register, "address") for register in inside]
    if not load:
        reads += [(register, "data") for register in registers]
    size = re.match(r"v?(?:ld|st)r(?:s?([bh]))?", name)
    return Instruction(
        address,
        width,
        name,
        "load" if load else "store",
        tuple(reads),
        frozenset(registers if load else []),
        base=inside[0] if inside else "",
        updates="!" in place or len(operands) > 2,
        indexed=len(inside) > 1,
        indirect=load and "r15" in registers,
        bits={"b": 8, "h": 16}.get(size[1] if size is not None and size[1] else "", 32),
    )


def _processing(address: int, width: int, name: str, word: str, operands: list[str]) -> Instruction:
    shift = re.match(r"(lsl|lsr|asr|ror|rrx)\b", operands[-1]) if len(operands) > 1 else None
    named = [_registers(operand) for operand in operands]
    sources = [registers[0] for registers in named[1:] if registers]
    results = named[0][:1] if named else []
    flags = name in _NO_RESULT or word.split(".")[0] == f"{name}s"
    if name in _NO_RESULT:
        sources, results = [*named[0][:1], *sources], []
    elif name in _UPDATING or (len(operands) == 2 and name in _TWO_OPERANDS):
        sources = [*results, *sources]
    kind: Kind = "alu"
    reads: list[tuple[str, Role]] = [(register, "late") for register in sources]
    if re.fullmatch(_MULTIPLY_LONG, name):
        kind = "mull"
        results, factors = [r for n in named[:2] for r in n], [r for n in named[2:] for r in n]
        reads = [(register, "factor") for register in factors]
        if not name.endswith("ull"):
            reads += [(register, "accumulator") for register in results]
    elif re.fullmatch(_MULTIPLY, name):
        kind = "mul"
        reads = [(register, "factor") for register in sources[:2]]
        reads += [(register, "accumulator") for register in sources[2:]]
    elif name in ("sdiv", "udiv"):
        kind = "div"
    elif name in _BITS or re.fullmatch(_SIMD, name):
        kind = "bits"
        reads = _bit_roles(name, sources, shift is not None)
    elif name in _SHIFTS:
        kind = "shift"
    elif name in ("asrl", "lsll", "lsrl"):
        kind, results = "bits", [r for n in named[:2] for r in n]
        reads = [(register, "late") for registers in named for register in registers]
    elif name in _SYSTEM:
        kind = "system"
    elif shift is not None:
        kind = "shifted"
        reads = [*((register, "late") for register in sources[:-1]), *((r, "early") for r in sources[-1:])]
    return Instruction(
        address,
        width,
        name,
        kind,
        tuple(reads),
        frozenset(results),
        shift=shift[1] if shift is not None else "",
        sets_flags=flags,
        indirect="r15" in results,
    )


def _bit_roles(name: str, sources: list[str], shifted: bool) -> list[tuple[str, Role]]:
    """The operand that is extracted or moved passes the shifter; what it is combined with need not."""
    if name.startswith(("sxta", "uxta")):
        return [(sources[0], "accumulator"), *((register, "early") for register in sources[1:])]
    if name in ("pkhbt", "bfi"):
        return [*((r, "late") for r in sources[:1]), *((r, "early") for r in sources[1:])]
    if name in ("pkhtb", "sbfx", "ubfx", "rbit", "rev", "rev16", "revsh") or shifted:
        return [(register, "early") for register in sources]
    return [(register, "late") for register in sources]


def _vector_or_float(address: int, width: int, name: str, kinds: list[str], operands: list[str]) -> Instruction:
    text = " ".join(operands)
    if name in ("vpush", "vpop", "vldmia", "vldmdb", "vstmia", "vstmdb", "vldm", "vstm"):
        return _multiple(address, width, name, operands)
    if re.search(r"\bq\d", text) or re.match(r"v(pst|pnot|pt|ctp)", name):
        return _vector(address, width, name, kinds, operands)
    if name in ("vldr", "vstr"):
        made = _single(address, width, name, operands)
        return made if not re.match(r"d\d", operands[0]) else _with_words(made, 2)
    named = [_registers(operand) for operand in operands]
    core = [register for registers in named for register in registers if register.startswith("r")]
    if name == "vmov" and core:
        results = named[0] if len(named) == 2 else named[0] + named[1] if named[0][0][0] == "r" else named[0]
        count = 2 if len(operands) > 2 else 1
        sources = [r for registers in named for r in registers if r not in results]
        reads: tuple[tuple[str, Role], ...] = tuple((register, "late") for register in sources)
        return Instruction(address, width, name, "transfer", reads, frozenset(results), words=count)
    kind = _FLOAT_KINDS.get(name, "fadd")
    sources = [register for registers in named[1:] for register in registers]
    results = named[0] if named else []
    accumulators = results if name in _UPDATING or kind == "fma" else []
    if name in _NO_RESULT:
        sources, results = [*results, *sources], []
    reads = (*((register, "factor") for register in sources), *((register, "accumulator") for register in accumulators))
    double = any(re.match(r"d\d", operand) for operand in operands)
    return Instruction(address, width, name, kind, reads, frozenset(results), bits=64 if double else 32)


def _with_words(made: Instruction, words: int) -> Instruction:
    kind: Kind = "loads" if made.kind == "load" else "stores"
    return Instruction(
        made.address, made.width, made.name, kind, made.reads, made.writes, words, base=made.base, updates=made.updates
    )


def _vector(address: int, width: int, name: str, kinds: list[str], operands: list[str]) -> Instruction:
    named = [_registers(operand) for operand in operands]
    bits = re.search(r"\d+", kinds[0]) if kinds else None
    lanes = 128 // int(bits[0]) if bits is not None else 4
    if name.startswith(("vldr", "vstr", "vld2", "vld4", "vst2", "vst4")):
        load = name.startswith("vld")
        place = " ".join(operands[1:])
        inside = _registers(place)
        reads: list[tuple[str, Role]] = [(register, "address") for register in inside]
        if not load:
            reads += [(register, "data") for register in named[0]]
        return Instruction(
            address,
            width,
            name,
            "vload" if load else "vstore",
            tuple(reads),
            frozenset(named[0] if load else []),
            base=inside[0] if inside else "",
            updates="!" in place or len(operands) > 2,
            indexed="q" in place,
            lanes=lanes,
        )
    results = named[0] if named else []
    sources = [register for registers in named[1:] for register in registers]
    reads = [(register, "late") for register in sources]
    scalar = bool(results) and results[0].startswith("r")
    if name.startswith("vmov") and not kinds and len(operands) == 4:  # two lanes to or from two core registers
        results = [r for n in named[:2] for r in n] if scalar else named[0]
        reads = [(register, "late") for registers in named[2:] for register in registers]
        if not scalar:
            reads += [(register, "accumulator") for register in results]
    elif re.match(r"v(r?ml[as]|addl?v)", name) and scalar and name.split(".")[0].endswith(("a", "ax")):
        count = 2 if "lda" in name or "lva" in name else 1
        results = [r for n in named[:count] for r in n]
        reads = [(r, "late") for n in named[count:] for r in n] + [(r, "accumulator") for r in results]
    elif (
        name in _UPDATING
        or (len(operands) == 2 and re.match(r"vq?r?shl$", name))
        or re.match(r"v(q?r?d?ml[as]|fm[as]|q?movu?n|q?r?shru?n)", name)
    ):
        reads += [(register, "accumulator") for register in results]
    elif name.startswith(("vcmp", "vpt", "vctp", "vpst", "vpnot")):
        reads = [(register, "late") for registers in named for register in registers]
        results = []
    kind: Kind = "vmul" if _VECTOR_MULTIPLY.match(name) else "vint"
    if name.startswith("vmov") and "[" in " ".join(operands):
        kind = "vmul" if scalar else "vint"
    if kinds and kinds[0].startswith("f") and kind == "vint" and not name.startswith(("vmov", "vdup", "vrev")):
        kind = "vmul"
    return Instruction(address, width, name, kind, tuple(reads), frozenset(results), lanes=lanes)
