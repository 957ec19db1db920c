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
    "take_1": Operation("ldr {d}, [{a}], #4", "{d} = ai_load_word({a});\n{a} += 4;"),
    # A word at any address, in C too.
    "take_any_1": Operation("ldr {d}, [{a}], #4", "{d} = ai_load({a});\n{a} += 4;"),
    "take_2": Operation("ldmia {a}!, {{{d}, {e}}}", "{d} = ai_load({a});\n{e} = ai_load({a} + 4);\n{a} += 8;"),
    "take_3": Operation(
        "ldmia {a}!, {{{d}, {e}, {f}}}",
        "{d} = ai_load({a});\n{e} = ai_load({a} + 4);\n{f} = ai_load({a} + 8);\n{a} += 12;",
    ),
    # Words at multiples of four.
    "take_words_2": Operation("", "{d} = ai_load_word({a});\n{e} = ai_load_word({a} + 4);\n{a} += 8;"),
    "take_words_4": Operation(
        "",
        "{d} = ai_load_word({a});\n{e} = ai_load_word({a} + 4);\n{f} = ai_load_word({a} + 8);\n"
        "{g} = ai_load_word({a} + 12);\n{a} += 16;",
    ),
    "put_words_3": Operation(
        "", "ai_store_word({d}, {a});\nai_store_word({d} + 4, {b});\nai_store_word({d} + 8, {c});\n{d} += 12;", True
    ),
    "put_words_4": Operation(
        "",
        "ai_store_word({d}, {a});\nai_store_word({d} + 4, {b});\nai_store_word({d} + 8, {c});\n"
        "ai_store_word({d} + 12, {r[3]});\n{d} += 16;",
        True,
    ),
    "store_word": Operation("str {b}, [{a}, #{i}]", "ai_store_word({a} + {i}, {b});"),
    "load_word": Operation("ldr {d}, [{a}, #{i}]", "{d} = ai_load_word({a} + {i});"),
    "sign_byte": Operation("sxtb {d}, {a}", "{d} = (int8_t)({a} & 0xFF);"),
    "multiply_by": Operation("mul {d}, {d}, {a}", "{d} = ai_multiply_add({d}, {a}, 0);", in_place=True),
    "add_to": Operation("add {d}, {d}, {a}", "{d} = ai_add({d}, {a});", in_place=True),
    "and_with": Operation("and {d}, {d}, {a}", "{d} = {d} & {a};", in_place=True),
    # Of a table of words.
    "load_entry": Operation("ldr {d}, [{a}, {b}, lsl #2]", "{d} = ai_load({a} + 4 * {b});"),
    "load_u8": Operation("ldrb {d}, [{a}, #{i}]", "{d} = (uint8_t){a}[{i}];"),
    "load_s8": Operation("ldrsb {d}, [{a}, #{i}]", "{d} = {a}[{i}];"),
    "store": Operation("str {b}, [{a}, #{i}]", "ai_store({a} + {i}, {b});"),
    "take_8": Operation(
        "ldmia {r[0]}!, {{{w[0]}, {w[1]}, {w[2]}, {w[3]}, {w[4]}, {w[5]}, {w[6]}, {w[7]}}}",
        "\n".join(f"{{w[{lane}]}} = ai_load({{r[0]}} + {4 * lane});" for lane in range(8)) + "\n{r[0]} += 32;",
    ),
    "put_8": Operation(
        "stmia {w[0]}!, {{{r[0]}, {r[1]}, {r[2]}, {r[3]}, {r[4]}, {r[5]}, {r[6]}, {r[7]}}}",
        "\n".join(f"ai_store({{w[0]}} + {4 * lane}, {{r[{lane}]}});" for lane in range(8)) + "\n{w[0]} += 32;",
    ),
    "store_8": Operation("strb {b}, [{a}, #{i}]", "{a}[{i}] = (int8_t){b};"),
    "store_16": Operation("strh {b}, [{a}, #{i}]", "ai_store_half({a} + {i}, {b});"),
    "advance": Operation("add {d}, {d}, #{i}", "{d} += {i};", in_place=True),
    "retreat": Operation("sub {d}, {d}, #{i}", "{d} -= {i};", in_place=True),
    "after_words": Operation("add {d}, {a}, {b}, lsl #2", "{d} = {a} + 4 * {b};"),
    "advance_by": Operation("add {d}, {d}, {a}", "{d} += {a};", in_place=True),
    # Integers.
    "move": Operation("mov {d}, {a}", "{d} = {a};"),
    "copy_pointer": Operation("mov {d}, {a}", "{d} = {a};"),
    "add": Operation("add {d}, {a}, {b}", "{d} = ai_add({a}, {b});"),
    "add_shifted_8": Operation("add {d}, {a}, {b}, lsl #8", "{d} = ai_add({a}, ai_shift_left({b}, 8));"),
    "add_shifted": Operation("add {d}, {a}, {b}, lsl #{i}", "{d} = ai_add({a}, ai_shift_left({b}, {i}));"),
    "add_sign": Operation("add {d}, {a}, {b}, asr #31", "{d} = ai_add({a}, {b} >> 31);"),
    "subtract": Operation("sub {d}, {a}, {b}", "{d} = ai_subtract({a}, {b});"),
    "shift_right": Operation("asr {d}, {a}, #{i}", "{d} = {a} >> {i};"),
    "shift_right_by": Operation("asr {d}, {a}, {b}", "{d} = {a} >> {b};"),
    "shift_left_by": Operation("lsl {d}, {a}, {b}", "{d} = ai_shift_left({a}, {b});"),
    "shift_left": Operation("lsl {d}, {a}, #{i}", "{d} = ai_shift_left({a}, {i});"),
    "shift_right_unsigned": Operation("lsr {d}, {a}, #{i}", "{d} = ai_shift_right_unsigned({a}, {i});"),
    "and_constant": Operation("and {d}, {a}, #{i}", "{d} = {a} & {i};"),
    "and": Operation("and {d}, {a}, {b}", "{d} = {a} & {b};"),
    "and_shifted_right": Operation("and {d}, {a}, {b}, lsr #{i}", "{d} = {a} & ai_shift_right_unsigned({b}, {i});"),
    "flip": Operation("eor {d}, {a}, #{i}", "{d} = {a} ^ (int32_t){i};"),
    "and_shifted_left_1": Operation("and {d}, {a}, {b}, lsl #1", "{d} = {a} & ai_shift_left({b}, 1);"),
    "and_shifted_left": Operation("and {d}, {a}, {b}, lsl #{i}", "{d} = {a} & ai_shift_left({b}, {i});"),
    "and_shifted_right_7": Operation("and {d}, {a}, {b}, lsr #7", "{d} = {a} & ai_shift_right_unsigned({b}, 7);"),
    "at_least": Operation("cmp {d}, #{i}\nit lt\nmovlt {d}, #{i}", "{d} = ({d} < {i}) ? {i} : {d};", in_place=True),
    "at_most": Operation("cmp {d}, #{i}\nit gt\nmovgt {d}, #{i}", "{d} = ({d} > {i}) ? {i} : {d};", in_place=True),
    "at_least_of": Operation("cmp {d}, {a}\nit lt\nmovlt {d}, {a}", "{d} = ({d} < {a}) ? {a} : {d};", in_place=True),
    "at_most_of": Operation("cmp {d}, {a}\nit gt\nmovgt {d}, {a}", "{d} = ({d} > {a}) ? {a} : {d};", in_place=True),
    "add_shifted_left_10": Operation("add {d}, {a}, {b}, lsl #10", "{d} = ai_add({a}, ai_shift_left({b}, 10));"),
    "add_shifted_left_21": Operation("add {d}, {a}, {b}, lsl #21", "{d} = ai_add({a}, ai_shift_left({b}, 21));"),
    "add_shifted_right_16": Operation(
        "add {d}, {a}, {b}, lsr #16", "{d} = ai_add({a}, ai_shift_right_unsigned({b}, 16));"
    ),
    "add_shifted_right_21": Operation(
        "add {d}, {a}, {b}, lsr #21", "{d} = ai_add({a}, ai_shift_right_unsigned({b}, 21));"
    ),
    "subtract_shifted_left_8": Operation("sub {d}, {a}, {b}, lsl #8", "{d} = ai_subtract({a}, ai_shift_left({b}, 8));"),
    "subtract_shifted_left_16": Operation(
        "sub {d}, {a}, {b}, lsl #16", "{d} = ai_subtract({a}, ai_shift_left({b}, 16));"
    ),
    "subtract_shifted_right_8": Operation(
        "sub {d}, {a}, {b}, lsr #8", "{d} = ai_subtract({a}, ai_shift_right_unsigned({b}, 8));"
    ),
    "subtract_shifted_right_11": Operation(
        "sub {d}, {a}, {b}, lsr #11", "{d} = ai_subtract({a}, ai_shift_right_unsigned({b}, 11));"
    ),
    "and_shifted_right_8": Operation("and {d}, {a}, {b}, lsr #8", "{d} = {a} & ai_shift_right_unsigned({b}, 8);"),
    "low_field_21": Operation("sbfx {d}, {a}, #0, #21", "{d} = ai_shift_left({a}, 11) >> 11;"),
    "low_field_24": Operation("sbfx {d}, {a}, #0, #24", "{d} = ai_shift_left({a}, 8) >> 8;"),
    "saturate_8": Operation("ssat {d}, #8, {a}", "{d} = ai_saturate_8({a});"),
    "saturate_8_shifted": Operation("ssat {d}, #8, {a}, asr #{i}", "{d} = ai_saturate_8({a} >> {i});"),
    "half_saturate_8": Operation("ssat {d}, #8, {a}, asr #1", "{d} = ai_saturate_8({a} >> 1);"),
    "saturate_16": Operation("ssat {d}, #16, {a}", "{d} = ai_clamp({a}, INT16_MIN, INT16_MAX);"),
    "saturate_u15": Operation("usat {d}, #15, {a}", "{d} = ai_clamp({a}, 0, INT16_MAX);"),
    # DSP extension.
    **{name: _dsp4(name) for name in ("smlad", "smlabb", "smlabt", "smlatb", "smlatt", "smmla", "smmlar")},
    **{name: _dsp4(name) for name in ("smlawb", "smlawt")},
    **{name: _dsp3(name) for name in ("smuad", "smulbb", "smulbt", "smultb", "smultt", "sadd16", "ssub16")},
    "smmulr": Operation("smmulr {d}, {a}, {b}", "{d} = ai_smmlar({a}, {b}, 0);"),
    "uxtb16": Operation("uxtb16 {d}, {a}", "{d} = {a} & 0x00FF00FF;"),
    "uxtb16_odd": Operation("uxtb16 {d}, {a}, ror #8", "{d} = ai_shift_right_unsigned({a}, 8) & 0x00FF00FF;"),
    "sxtb16": Operation("sxtb16 {d}, {a}", "{d} = ai_sxtb16({a}, 0);"),
    "sxtb16_odd": Operation("sxtb16 {d}, {a}, ror #8", "{d} = ai_sxtb16({a}, 8);"),
    "sxtab16": Operation("sxtab16 {d}, {a}, {b}", "{d} = ai_sxtab16({a}, {b}, 0);"),
    "sxtab16_odd": Operation("sxtab16 {d}, {a}, {b}, ror #8", "{d} = ai_sxtab16({a}, {b}, 8);"),
    "pack_low": Operation("pkhbt {d}, {a}, {b}, lsl #16", "{d} = ai_pack_low({a}, {b});"),
    "pack_high": Operation("pkhtb {d}, {a}, {b}, asr #16", "{d} = ai_pack_high({a}, {b});"),
    # Helium: int8x16_t, int16x8_t and int32x4_t variables. Vector loads reach 508 bytes, byte accesses 127.
    "vload": Operation("vldrw.32 {d}, [{a}, #{i}]", "{d} = vldrbq_s8({a} + {i});"),
    "vload_words": Operation("vldrw.32 {d}, [{a}, #{i}]", "{d} = ai_vload_words({a} + {i});"),
    "vload_widened": Operation("vldrb.s32 {d}, [{a}, #{i}]", "{d} = vldrbq_s32({a} + {i});"),
    "vtake": Operation("vldrw.32 {d}, [{a}], #16", "{d} = vldrbq_s8({a});\n{a} += 16;"),
    "vtake_bytes": Operation("vldrb.8 {d}, [{a}], #16", "{d} = vldrbq_s8({a});\n{a} += 16;"),
    "vtake_words": Operation("vldrw.32 {d}, [{a}], #16", "{d} = ai_vload_words({a});\n{a} += 16;"),
    "vtake_widened": Operation("vldrb.s32 {d}, [{a}], #4", "{d} = vldrbq_s32({a});\n{a} += 4;"),
    "vput_narrowed": Operation("vstrb.32 {b}, [{a}], #4", "vstrbq_s32({a}, {b});\n{a} += 4;"),
    "vput_words": Operation("vstrw.32 {b}, [{a}], #16", "vstrbq_s8({a}, vreinterpretq_s8_s32({b}));\n{a} += 16;"),
    "vget": Operation("vmov.32 {d}, {a}[{i}]", "{d} = vgetq_lane_s32({a}, {i});"),
    "vstore": Operation("vstrb.8 {b}, [{a}, #{i}]", "vstrbq_s8({a} + {i}, {b});"),
    "vstore_first": Operation("vctp.8 {c}\nvpst\nvstrbt.8 {b}, [{a}, #{i}]", "ai_vstore_first({a} + {i}, {b}, {c});"),
    "vspread": Operation("vdup.32 {d}, {a}", "{d} = vdupq_n_s32({a});"),
    "vlanes": Operation(
        "vmov {d}[2], {d}[0], {r[0]}, {r[2]}\nvmov {d}[3], {d}[1], {r[1]}, {r[3]}",
        "{d} = ai_lanes({r[0]}, {r[1]}, {r[2]}, {r[3]});",
    ),
    "vdot": Operation("vmladav.s8 {d}, {a}, {b}", "{d} = vmladavq_s8({a}, {b});"),
    "vdot_add": Operation("vmladava.s8 {d}, {a}, {b}", "{d} = vmladavaq_s8({d}, {a}, {b});", in_place=True),
    "vadd": Operation("vadd.i32 {d}, {a}, {b}", "{d} = vaddq_s32({a}, {b});"),
    "vadd_scalar": Operation("vadd.i32 {d}, {a}, {b}", "{d} = vaddq_n_s32({a}, {b});"),
    "vsign": Operation("vshr.s32 {d}, {a}, #31", "{d} = vshrq_n_s32({a}, 31);"),
    "vshift_right": Operation("vshr.s32 {d}, {a}, #{i}", "{d} = vshrq_n_s32({a}, {i});"),
    "vshift_left_8": Operation("vshl.i8 {d}, {a}, #{i}", "{d} = vshlq_n_s8({a}, {i});"),
    "vand": Operation("vand {d}, {a}, {b}", "{d} = vandq_s8({a}, {b});"),
    "vqrdmulh": Operation("vqrdmulh.s32 {d}, {a}, {b}", "{d} = vqrdmulhq_s32({a}, {b});"),
    "vqdmulh": Operation("vqdmulh.s32 {d}, {a}, {b}", "{d} = vqdmulhq_s32({a}, {b});"),
    "vrshl": Operation("vrshl.s32 {d}, {a}, {b}", "{d} = vrshlq_s32({a}, {b});"),
    "vmax": Operation("vmax.s32 {d}, {a}, {b}", "{d} = vmaxq_s32({a}, {b});"),
    "vmin": Operation("vmin.s32 {d}, {a}, {b}", "{d} = vminq_s32({a}, {b});"),
    "vmull_even": Operation("vmullb.s8 {d}, {a}, {b}", "{d} = vmullbq_int_s8({a}, {b});"),
    "vmull_odd": Operation("vmullt.s8 {d}, {a}, {b}", "{d} = vmulltq_int_s8({a}, {b});"),
    "vadd_halves": Operation("vadd.i16 {d}, {a}, {b}", "{d} = vaddq_s16({a}, {b});"),
    "vwiden_even": Operation("vmovlb.s16 {d}, {a}", "{d} = vmovlbq_s16({a});"),
    "vwiden_odd": Operation("vmovlt.s16 {d}, {a}", "{d} = vmovltq_s16({a});"),
    "vnarrow_even": Operation("vqmovnb.s32 {d}, {a}", "{d} = vqmovnbq_s32(vdupq_n_s16(0), {a});"),
    "vnarrow_odd": Operation("vqmovnt.s32 {d}, {a}", "{d} = vqmovntq_s32({d}, {a});", in_place=True),
    "vnarrow_even_8": Operation("vqmovnb.s16 {d}, {a}", "{d} = vqmovnbq_s16(vdupq_n_s8(0), {a});"),
    "vnarrow_odd_8": Operation("vqmovnt.s16 {d}, {a}", "{d} = vqmovntq_s16({d}, {a});", in_place=True),
    "vmax_8": Operation("vmax.s8 {d}, {a}, {b}", "{d} = vmaxq_s8({a}, {b});"),
    "vmin_8": Operation("vmin.s8 {d}, {a}, {b}", "{d} = vminq_s8({a}, {b});"),
    "vspread_8": Operation("vdup.8 {d}, {a}", "{d} = vdupq_n_s8((int8_t){a});"),
    # Helium on int16 codes.
    "vload_halves": Operation("vldrw.32 {d}, [{a}, #{i}]", "{d} = vreinterpretq_s16_s8(vldrbq_s8({a} + {i}));"),
    "vtake_halves": Operation("vldrw.32 {d}, [{a}], #16", "{d} = vreinterpretq_s16_s8(vldrbq_s8({a}));\n{a} += 16;"),
    "vtake_widened_halves": Operation("vldrb.s16 {d}, [{a}], #8", "{d} = vldrbq_s16({a});\n{a} += 8;"),
    "vput_halves": Operation("vstrh.32 {b}, [{a}], #8", "ai_vstore_halves({a}, {b});\n{a} += 8;"),
    "vput_half_codes": Operation("vstrw.32 {b}, [{a}], #16", "vstrbq_s8({a}, vreinterpretq_s8_s16({b}));\n{a} += 16;"),
    "vdot_16": Operation("vmladav.s16 {d}, {a}, {b}", "{d} = vmladavq_s16({a}, {b});"),
    "vdot_16_add": Operation("vmladava.s16 {d}, {a}, {b}", "{d} = vmladavaq_s16({d}, {a}, {b});", in_place=True),
    "vrmulh": Operation("vrmulh.s32 {d}, {a}, {b}", "{d} = vrmulhq_s32({a}, {b});"),
    "vmull_even_16": Operation("vmullb.s16 {d}, {a}, {b}", "{d} = vmullbq_int_s16({a}, {b});"),
    "vmull_odd_16": Operation("vmullt.s16 {d}, {a}, {b}", "{d} = vmulltq_int_s16({a}, {b});"),
    "vmax_16": Operation("vmax.s16 {d}, {a}, {b}", "{d} = vmaxq_s16({a}, {b});"),
    "vmin_16": Operation("vmin.s16 {d}, {a}, {b}", "{d} = vminq_s16({a}, {b});"),
    "vspread_16": Operation("vdup.16 {d}, {a}", "{d} = vdupq_n_s16((int16_t){a});"),
    "multiply": Operation("mul {d}, {a}, {b}", "{d} = ai_multiply_add({a}, {b}, 0);"),
    # 64-bit sums, low word first.
    "multiply_add_long": Operation(
        "smlal {w[0]}, {w[1]}, {r[0]}, {r[1]}",
        "ai_multiply_add_long(&{w[0]}, &{w[1]}, {r[0]}, {r[1]});",
        in_place=True,
    ),
    # Of cores without long products: C only.
    "scale_parts": Operation("", "{d} = ai_scale_parts({a}, {b}, 1);"),
    "scale_parts_down": Operation("", "{d} = ai_scale_parts({a}, {b}, 0);"),
    "scale_parts_wide": Operation("", "{d} = ai_scale_parts_wide({a}, {b}, 1);"),
    "scale_parts_wide_down": Operation("", "{d} = ai_scale_parts_wide({a}, {b}, 0);"),
    "multiply_add": Operation("mla {d}, {a}, {b}, {c}", "{d} = ai_multiply_add({a}, {b}, {c});"),
}
