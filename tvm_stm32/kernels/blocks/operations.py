"""What an operation of a block is: an instruction (GNU syntax, unified) and a C statement.

Names in braces are the operands: ``d`` to ``g`` written (``w`` all of them), ``a``, ``b``, ``c`` read (``r`` all of
them), ``i`` a constant. Integers are int32_t
in C and wrap; pointers count bytes. A word is four bytes at any address. Arm v7-M and v8-M Architecture Reference
Manuals; ``ai_*`` functions of C are in ``ai_blocks.h``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operation:
    """``assembly`` may be several lines. ``in_place``: ``d`` is read as well."""

    assembly: str
    c: str
    in_place: bool = False


def _dsp3(mnemonic: str) -> Operation:
    return Operation(f"{mnemonic} {{d}}, {{a}}, {{b}}", f"{{d}} = ai_{mnemonic}({{a}}, {{b}});")


def _dsp4(mnemonic: str) -> Operation:
    return Operation(f"{mnemonic} {{d}}, {{a}}, {{b}}, {{c}}", f"{{d}} = ai_{mnemonic}({{a}}, {{b}}, {{c}});")


OPERATIONS = {
    # Memory.
    "load": Operation("ldr {d}, [{a}, #{i}]", "{d} = ai_load({a} + {i});"),
    "load_2": Operation("ldrd {d}, {e}, [{a}, #{i}]", "{d} = ai_load({a} + {i});\n{e} = ai_load({a} + {i} + 4);"),
    "take_1": Operation("ldr {d}, [{a}], #4", "{d} = ai_load({a});\n{a} += 4;"),
    "take_2": Operation("ldmia {a}!, {{{d}, {e}}}", "{d} = ai_load({a});\n{e} = ai_load({a} + 4);\n{a} += 8;"),
    "take_3": Operation(
        "ldmia {a}!, {{{d}, {e}, {f}}}",
        "{d} = ai_load({a});\n{e} = ai_load({a} + 4);\n{f} = ai_load({a} + 8);\n{a} += 12;",
    ),
    "load_u8": Operation("ldrb {d}, [{a}, #{i}]", "{d} = (uint8_t){a}[{i}];"),
    "load_s8": Operation("ldrsb {d}, [{a}, #{i}]", "{d} = {a}[{i}];"),
    "store": Operation("str {b}, [{a}, #{i}]", "ai_store({a} + {i}, {b});"),
    "put_8": Operation(
        "stmia {w[0]}!, {{{r[0]}, {r[1]}, {r[2]}, {r[3]}, {r[4]}, {r[5]}, {r[6]}, {r[7]}}}",
        "\n".join(f"ai_store({{w[0]}} + {4 * lane}, {{r[{lane}]}});" for lane in range(8)) + "\n{w[0]} += 32;",
    ),
    "store_8": Operation("strb {b}, [{a}, #{i}]", "{a}[{i}] = (int8_t){b};"),
    "store_16": Operation("strh {b}, [{a}, #{i}]", "ai_store_half({a} + {i}, {b});"),
    "advance": Operation("add {d}, {d}, #{i}", "{d} += {i};", in_place=True),
    "retreat": Operation("sub {d}, {d}, #{i}", "{d} -= {i};", in_place=True),
    "advance_by": Operation("add {d}, {d}, {a}", "{d} += {a};", in_place=True),
    # Integers.
    "move": Operation("mov {d}, {a}", "{d} = {a};"),
    "copy_pointer": Operation("mov {d}, {a}", "{d} = {a};"),
    "add": Operation("add {d}, {a}, {b}", "{d} = ai_add({a}, {b});"),
    "add_shifted_8": Operation("add {d}, {a}, {b}, lsl #8", "{d} = ai_add({a}, ai_shift_left({b}, 8));"),
    "add_sign": Operation("add {d}, {a}, {b}, asr #31", "{d} = ai_add({a}, {b} >> 31);"),
    "subtract": Operation("sub {d}, {a}, {b}", "{d} = ai_subtract({a}, {b});"),
    "shift_right": Operation("asr {d}, {a}, #{i}", "{d} = {a} >> {i};"),
    "shift_right_by": Operation("asr {d}, {a}, {b}", "{d} = {a} >> {b};"),
    "shift_left_by": Operation("lsl {d}, {a}, {b}", "{d} = ai_shift_left({a}, {b});"),
    "flip": Operation("eor {d}, {a}, #{i}", "{d} = {a} ^ (int32_t){i};"),
    "and_shifted_left_1": Operation("and {d}, {a}, {b}, lsl #1", "{d} = {a} & ai_shift_left({b}, 1);"),
    "and_shifted_right_7": Operation("and {d}, {a}, {b}, lsr #7", "{d} = {a} & ai_shift_right_unsigned({b}, 7);"),
    "at_least": Operation("cmp {d}, #{i}\nit lt\nmovlt {d}, #{i}", "{d} = ({d} < {i}) ? {i} : {d};", in_place=True),
    "at_most": Operation("cmp {d}, #{i}\nit gt\nmovgt {d}, #{i}", "{d} = ({d} > {i}) ? {i} : {d};", in_place=True),
    "saturate_8": Operation("ssat {d}, #8, {a}", "{d} = ai_saturate_8({a});"),
    "half_saturate_8": Operation("ssat {d}, #8, {a}, asr #1", "{d} = ai_saturate_8({a} >> 1);"),
    # DSP extension.
    **{name: _dsp4(name) for name in ("smlad", "smlabb", "smlabt", "smlatb", "smlatt", "smmla", "smmlar")},
    **{name: _dsp3(name) for name in ("smuad", "smulbb", "smulbt", "smultb", "smultt", "sadd16", "ssub16", "sxtab16")},
    "sxtb16": Operation("sxtb16 {d}, {a}", "{d} = ai_sxtb16({a}, 0);"),
    "sxtb16_odd": Operation("sxtb16 {d}, {a}, ror #8", "{d} = ai_sxtb16({a}, 8);"),
    "pack_low": Operation("pkhbt {d}, {a}, {b}, lsl #16", "{d} = ai_pack_low({a}, {b});"),
    "pack_high": Operation("pkhtb {d}, {a}, {b}, asr #16", "{d} = ai_pack_high({a}, {b});"),
    "multiply_add": Operation("mla {d}, {a}, {b}, {c}", "{d} = ai_multiply_add({a}, {b}, {c});"),
}
