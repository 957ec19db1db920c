"""The ONNX project's node tests: which of them a static inference graph can hold, and their models made static.

Shared by ``onnx_coverage.py`` and the tests.
"""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass

import numpy as np
import onnx
from onnx import numpy_helper

_NUMERIC = ("FLOAT", "DOUBLE", "FLOAT16", "BFLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64")
NUMERIC = frozenset((*_NUMERIC, "UINT8", "UINT16", "UINT32", "UINT64"))
"""Element types of the tests that are looked at; 8-bit and smaller floats, 4-bit integers and texts are not."""

# Inputs that steer shapes (or the structure of the computation), by operator: position.
_REDUCTIONS = ("L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare")
STEERING: dict[str, tuple[int, ...]] = {
    "AffineGrid": (1,),
    "BlackmanWindow": (0,),
    "CenterCropPad": (1,),
    "Col2Im": (1, 2),
    "Compress": (1,),
    "ConstantOfShape": (0,),
    "CumProd": (1,),
    "CumSum": (1,),
    "DFT": (1, 2),
    "Dropout": (1, 2),
    "Expand": (1,),
    "HammingWindow": (0,),
    "HannWindow": (0,),
    "Loop": (0, 1),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "OneHot": (1,),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Reshape": (1,),
    "Resize": (1, 2, 3),
    "STFT": (1, 3),
    "Slice": (1, 2, 3, 4),
    "Split": (1,),
    "Squeeze": (1,),
    "Tile": (1,),
    "TopK": (1,),
    "Trilu": (1,),
    "Unsqueeze": (1,),
    "Upsample": (1,),
    **{f"Reduce{name}": (1,) for name in _REDUCTIONS},
}

_TRAINING = "training: not part of inference"
_LOSS = "loss: not part of inference"
_RANDOM = "random: its expected values are those of one generator"
_SEQUENCE = "sequences have no static size"
SET_ASIDE: dict[str, str] = {
    "Adagrad": _TRAINING,
    "Adam": _TRAINING,
    "Momentum": _TRAINING,
    "NegativeLogLikelihoodLoss": _LOSS,
    "SoftmaxCrossEntropyLoss": _LOSS,
    "Bernoulli": _RANDOM,
    "RandomUniformLike": _RANDOM,
    "ImageDecoder": "decodes image files",
    "TreeEnsemble": "tree ensembles are not neural networks",
    "SequenceInsert": _SEQUENCE,
    "SplitToSequence": _SEQUENCE,
    "OptionalGetElement": "optional values have no static type",
    "OptionalHasElement": "optional values have no static type",
    "StringNormalizer": "texts",
}
"""Operators that cannot occur in a static inference graph, and why."""

_SET_ASIDE_TESTS = (
    (re.compile(r"test_batchnorm_.*training_mode"), _TRAINING),
    (re.compile(r"test_training_dropout_(default.*|mask)|test_training_dropout"), _RANDOM),
)
_KEPT_TESTS = re.compile(r"test_training_dropout_zero_ratio.*")


@dataclass(frozen=True)
class NodeTest:
    """One test: its model with the steering inputs bound, the values of the other inputs, and what must come out."""

    name: str
    operator: str
    model: onnx.ModelProto
    inputs: list[np.ndarray]
    outputs: list[np.ndarray]
    rtol: float
    atol: float
    set_aside: str = ""


def node_tests() -> list[NodeTest]:
    """Every node test with numeric tensors, by name. Values are the same in every run."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        cases = {case.name: case for case in load_model_tests(kind="node")}
    found = []
    for name in sorted(cases):
        case = cases[name]
        model = case.model
        if model is None or not case.data_sets or not _is_numeric(model):
            continue
        base = cases.get(re.sub(r"_expanded.*", "", name), case)
        node = (base.model or model).graph.node[0]
        inputs, outputs = (list(values) for values in case.data_sets[0])
        found.append(_bound(name, node, model, inputs, outputs, case.rtol, case.atol))
    return found


def _is_numeric(model: onnx.ModelProto) -> bool:
    for value in (*model.graph.input, *model.graph.output):
        if not value.type.HasField("tensor_type"):
            return False
        if onnx.TensorProto.DataType.Name(value.type.tensor_type.elem_type) not in NUMERIC:
            return False
    return True


def _bound(
    name: str,
    node: onnx.NodeProto,
    model: onnx.ModelProto,
    inputs: list[np.ndarray],
    outputs: list[np.ndarray],
    rtol: float,
    atol: float,
) -> NodeTest:
    """The test with its steering inputs as initializers and the shapes of its values written down."""
    steering = {node.input[index] for index in STEERING.get(node.op_type, ()) if index < len(node.input)}
    copy = onnx.ModelProto()
    copy.CopyFrom(model)
    free, values = [], []
    for value, array in zip(model.graph.input, inputs, strict=True):
        if value.name in steering:
            copy.graph.initializer.append(numpy_helper.from_array(np.asarray(array), value.name))
        else:
            free.append(_with_shape(value, np.shape(array)))
            values.append(np.asarray(array))
    del copy.graph.input[:], copy.graph.output[:]
    copy.graph.input.extend(free)
    copy.graph.output.extend(
        _with_shape(value, np.shape(array)) for value, array in zip(model.graph.output, outputs, strict=True)
    )
    expected = [np.asarray(array) for array in outputs]
    return NodeTest(name, node.op_type, copy, values, expected, rtol, atol, _set_aside(name, node.op_type))


def _with_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> onnx.ValueInfoProto:
    return onnx.helper.make_tensor_value_info(value.name, value.type.tensor_type.elem_type, shape)


def _set_aside(name: str, operator: str) -> str:
    if _KEPT_TESTS.fullmatch(name):
        return ""
    reasons = [reason for pattern, reason in _SET_ASIDE_TESTS if pattern.fullmatch(name)]
    return reasons[0] if reasons else SET_ASIDE.get(operator, "")


def difference(test: NodeTest, actual: list[np.ndarray]) -> str:
    """Empty when the outputs are the expected ones (integers exactly, floats within the test's tolerance)."""
    for position, (expected, got) in enumerate(zip(test.outputs, actual, strict=True)):
        where = f"output {position}" if len(actual) > 1 else "the output"
        if expected.shape != got.shape:
            return f"{where} has shape {got.shape} instead of {expected.shape}"
        if expected.dtype != got.dtype:
            return f"{where} is {got.dtype} instead of {expected.dtype}"
        if expected.dtype.kind in "iub":
            wrong = expected != got
        else:
            wide = np.float64 if expected.dtype == np.float64 else np.float32
            wrong = ~np.isclose(got.astype(wide), expected.astype(wide), test.rtol, test.atol, equal_nan=True)
        if np.any(wrong):
            return f"{int(np.sum(wrong))} of {expected.size} elements of {where} differ"
    return ""
