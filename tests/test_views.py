"""Slices, splits and concatenations along the outermost axis are views: no copy, no memory of their own."""

from __future__ import annotations

import numpy as np
from support import build_and_run
from tvm import IRModule, relax

from tvm_stm32.compiler import CompileOptions, compile_loaded
from tvm_stm32.emit.emitter import render
from tvm_stm32.library import Library
from tvm_stm32.model import Model, Provenance, TensorInfo
from tvm_stm32.target import Target

op = relax.op


def compiled(make, *shapes: tuple[int, ...], external: tuple[str, ...] = ()) -> Library:
    inputs = [relax.Var(f"x{n}", relax.TensorType(shape, "float32")) for n, shape in enumerate(shapes)]
    builder = relax.BlockBuilder()
    with builder.function("main", inputs):
        with builder.dataflow():
            results = make(builder, *inputs)
            out = builder.emit_output(relax.Tuple(results))
        builder.emit_func_output(out)
    infos = [TensorInfo(f"x{n}", shape, "float32") for n, shape in enumerate(shapes)]
    outputs = [
        TensorInfo(f"out{n}", tuple(int(extent) for extent in result.ty.shape), "float32")
        for n, result in enumerate(results)
    ]
    model = Model(
        IRModule({"main": builder.get()["main"]}), infos, outputs, "float", Provenance("zoo", "0" * 64, "test")
    )
    return compile_loaded(model, CompileOptions(Target.for_cpu("host"), name="zoo", external_io=external))


def ran(library: Library, folder, *arrays: np.ndarray) -> list[np.ndarray]:
    results, _ = build_and_run(library, "host", [b"".join(a.astype(np.float32).tobytes() for a in arrays)], folder)
    flat = np.frombuffer(results[0], np.float32)
    found = []
    for info in library.outputs:
        size = int(np.prod(info.shape))
        found.append(flat[:size].reshape(info.shape))
        flat = flat[size:]
    return found


def operators(library: Library) -> list[str]:
    return [call.operator for call in library.calls]


X = np.arange(96, dtype=np.float32).reshape(1, 12, 8)
Y = -np.arange(32, dtype=np.float32).reshape(1, 4, 8)


def test_a_slice_reads_where_its_source_lies(tmp_path):
    def make(builder, x):
        doubled = builder.emit(op.add(x, x))
        part = builder.emit(op.strided_slice(doubled, [1], [4], [10]))
        return [builder.emit(op.sum(part, axis=[1]))]

    library = compiled(make, X.shape)
    assert len(library.calls) == 2 and 4 * 8 * 4 in library.alias_offsets.values()
    np.testing.assert_array_equal(ran(library, tmp_path, X)[0], (2 * X)[:, 4:10].sum(axis=1))


def test_a_slice_of_an_input_reads_the_input(tmp_path):
    def make(builder, x):
        part = builder.emit(op.strided_slice(x, [1], [-6], [12]))
        return [builder.emit(op.sum(part, axis=[1]))]

    library = compiled(make, X.shape)
    assert len(library.calls) == 1
    np.testing.assert_array_equal(ran(library, tmp_path, X)[0], X[:, 6:].sum(axis=1))
    # Wherever the application puts the input.
    assert "((const uint8_t *)tensors[0].data + 192)" in render(compiled(make, X.shape, external=("all",)))[".c"]


def test_parts_of_a_split_are_views(tmp_path):
    def make(builder, x):
        parts = builder.emit(op.split(x, 3, axis=1))
        return [builder.emit(op.sum(builder.emit(relax.TupleGetItem(parts, n)), axis=[1])) for n in range(3)]

    library = compiled(make, X.shape)
    assert operators(library) == ["sum"] * 3
    for got, part in zip(ran(library, tmp_path, X), np.split(X, 3, axis=1), strict=True):
        np.testing.assert_array_equal(got, part.sum(axis=1))


def test_parts_of_a_concatenation_are_made_in_place(tmp_path):
    def make(builder, x, y):
        sums = builder.emit(op.add(x, x))
        exponents = builder.emit(op.multiply(y, y))
        return [builder.emit(op.concat([sums, exponents], axis=1))]

    library = compiled(make, X.shape, Y.shape)
    text = render(compiled(make, X.shape, Y.shape, external=("all",)))[".c"]
    assert "((uint8_t *)tensors[2].data + 384)" in text
    assert len(library.calls) == 2 and library.alias_offsets[library.calls[1].outputs[0]] == X.nbytes
    expected = np.concatenate([2 * X, Y * Y], axis=1)
    np.testing.assert_array_equal(ran(library, tmp_path, X, Y)[0], expected)


def test_what_cannot_be_made_in_place_is_copied(tmp_path):
    """An input, a value twice, one that is part of another concatenation."""

    def make(builder, x, y):
        sums = builder.emit(op.add(y, y))
        one = builder.emit(op.concat([x, sums, sums], axis=1))
        two = builder.emit(op.concat([sums, y], axis=1))
        return [one, two]

    library = compiled(make, X.shape, Y.shape)
    one, two = ran(library, tmp_path, X, Y)
    np.testing.assert_array_equal(one, np.concatenate([X, 2 * Y, 2 * Y], axis=1))
    np.testing.assert_array_equal(two, np.concatenate([2 * Y, Y], axis=1))


def test_a_part_read_by_others_keeps_its_value(tmp_path):
    def make(builder, x, y):
        sums = builder.emit(op.add(y, y))
        whole = builder.emit(op.concat([sums, x], axis=1))
        more = builder.emit(op.sum(whole, axis=[1]))
        return [builder.emit(op.multiply(more, builder.emit(op.sum(sums, axis=[1])))), more]

    library = compiled(make, X.shape, Y.shape)
    product, more = ran(library, tmp_path, X, Y)
    np.testing.assert_array_equal(more, np.concatenate([2 * Y, X], axis=1).sum(axis=1))
    np.testing.assert_array_equal(product, more * (2 * Y).sum(axis=1))


def test_other_axes_and_odd_places_are_copied(tmp_path):
    def make(builder, x, y):
        inner = builder.emit(op.strided_slice(x, [2], [2], [7]))
        odd = builder.emit(op.strided_slice(builder.emit(op.reshape(x, (96,))), [0], [3], [40]))
        joined = builder.emit(op.concat([y, y], axis=2))
        return [inner, odd, joined]

    library = compiled(make, X.shape, Y.shape)
    assert not library.alias_offsets
    inner, odd, joined = ran(library, tmp_path, X, Y)
    np.testing.assert_array_equal(inner, X[:, :, 2:7])
    np.testing.assert_array_equal(odd, X.reshape(-1)[3:40])
    np.testing.assert_array_equal(joined, np.concatenate([Y, Y], axis=2))


def test_an_output_is_no_part_of_another_tensor(tmp_path):
    """Applications may place it."""

    def make(builder, x):
        doubled = builder.emit(op.add(x, x))
        parts = builder.emit(op.split(doubled, 3, axis=1))
        return [builder.emit(relax.TupleGetItem(parts, n)) for n in (0, 2)]

    library = compiled(make, X.shape)
    assert all(library.movable(name) for name in library.output_tensors)
    one, two = ran(library, tmp_path, X)
    np.testing.assert_array_equal(np.concatenate([one, two], axis=1), 2 * np.concatenate([X[:, :4], X[:, 8:]], axis=1))


def test_a_pad_is_made_around_its_data(tmp_path):
    def make(builder, x):
        doubled = builder.emit(op.add(x, x))
        padded = builder.emit(op.nn.pad(doubled, [0, 0, 3, 2, 0, 0], "constant", 0.5))
        return [builder.emit(op.sum(padded, axis=[2])), builder.emit(op.sum(doubled, axis=[1]))]

    library = compiled(make, X.shape)
    assert operators(library).count("fill") == 2 and 3 * 8 * 4 in library.alias_offsets.values()
    padded, doubled = ran(library, tmp_path, X)
    expected = np.pad(2 * X, ((0, 0), (3, 2), (0, 0)), constant_values=0.5)
    np.testing.assert_array_equal(padded, expected.sum(axis=2))
    np.testing.assert_array_equal(doubled, (2 * X).sum(axis=1))


def test_a_pad_that_cannot_be_is_copied(tmp_path):
    """Of an input, of an output, of what another pad holds, of inner axes, to odd places."""

    def make(builder, x):
        doubled = builder.emit(op.add(x, x))
        of_input = builder.emit(op.nn.pad(x, [0, 0, 2, 0, 0, 0]))
        twice = [builder.emit(op.nn.pad(doubled, [0, 0, n, 0, 0, 0])) for n in (1, 2)]
        made = builder.emit(op.multiply(x, x))
        inner = builder.emit(op.nn.pad(builder.emit(op.subtract(x, made)), [0, 0, 0, 0, 1, 1]))
        flat = builder.emit(op.reshape(builder.emit(op.exp(builder.emit(op.negative(x)))), (96,)))
        odd = builder.emit(op.nn.pad(flat, [1, 0]))
        return [of_input, *twice, made, builder.emit(op.nn.pad(made, [0, 0, 2, 0, 0, 0])), inner, odd]

    library = compiled(make, X.shape)
    assert "fill" not in operators(library)
    got = ran(library, tmp_path, X)
    for number, source, count in ((0, X, 2), (1, 2 * X, 1), (2, 2 * X, 2), (4, X * X, 2)):
        np.testing.assert_array_equal(got[number], np.pad(source, ((0, 0), (count, 0), (0, 0))))
    np.testing.assert_array_equal(got[5], np.pad(X - X * X, ((0, 0), (0, 0), (1, 1))))
    np.testing.assert_allclose(got[6], np.pad(np.exp(-X).reshape(-1), (1, 0)), rtol=1e-6)


def test_pads_beside_other_operators_with_numbers(tmp_path):
    """Slices have numbers among their operands, which are no tensors."""

    def make(builder, x):
        doubled = builder.emit(op.add(x, x))
        padded = builder.emit(op.nn.pad(doubled, [0, 0, 1, 0, 0, 0]))
        return [builder.emit(op.sum(padded, axis=[1])), builder.emit(op.strided_slice(x, [2], [2], [7]))]

    library = compiled(make, X.shape)
    assert "fill" in operators(library)
    padded, part = ran(library, tmp_path, X)
    np.testing.assert_array_equal(padded, (2 * X).sum(axis=1))
    np.testing.assert_array_equal(part, X[:, :, 2:7])
