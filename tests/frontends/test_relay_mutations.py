"""Damaged texts and parameter files never do anything but raise this project's errors."""

from __future__ import annotations

import random
import re
from pathlib import Path

import numpy as np
import pytest
from relay_support import FIXTURES, HEADER, metadata

from tvm_stm32.errors import Error
from tvm_stm32.frontends import relay

TOKEN = re.compile(r"[A-Za-z_][\w.]*|\d+|\s+|.", re.DOTALL)
ODDITIES = ["-1", "0", "99999999999", "1e309f", "nanf", "(", "%", "None", "[]", '""', "2147483648", "meta[a][0]", "/*"]
OWN = (
    HEADER
    + """def @f(%a:0: Tensor[(1, 4), int8], Composite="x") { qnn.tanh(%a:0, 0.1f, 0, 0.1f, 0) }
def @main(%x: Tensor[(1, 4), int8] /* ty=Tensor[(1, 4), int8] span=in:0:0 */) -> (Tensor[(1, 2), int8], float32) {
  %0 = qnn.dense(%x, meta[relay.Constant][0], 3, 0, 0.5f, meta[relay.Constant][1], units=2, out_dtype="int32");
  let %y = nn.bias_add(%0, meta[relay.Constant][2]);
  %1 = qnn.requantize(%y, meta[relay.Constant][1], 0, 0.25f, -4, axis=1, out_dtype="int8");
  %2 = split(concatenate((@f(%x), %x), axis=1), indices_or_sections=2, axis=1);
  if (True) { (clip(%1, a_min=-128f, a_max=127f), 1f) } else { (%1, %2.0) }
}
"""
    + metadata([np.ones((2, 4), np.int8), np.array([0.5, 0.25], np.float32), np.array([1, 2], np.int32)])
)
SMALL = ["ctl_let_if", "ctl_adt_match", "ctl_ref", "q_ops_binary", "q_ops_unary", "f32_mlp", "var_cmsisnn_byoc"]


def mutated(text: str, rng: random.Random) -> str:
    tokens = TOKEN.findall(text[: text.find("#[metadata]")] if rng.random() < 0.85 and "#[metadata]" in text else text)
    rest = text[sum(map(len, tokens)) :]
    words = [token for token in tokens if token.strip()]
    for _ in range(rng.choice([1, 1, 2, 4])):
        place, kind = rng.randrange(len(tokens)), rng.randrange(5)
        if kind == 0:
            del tokens[place]
        elif kind == 1:
            tokens.insert(place, tokens[place])
        elif kind == 2:
            tokens[place] = rng.choice(words)
        elif kind == 3:
            tokens[place] = rng.choice(ODDITIES)
        else:
            other = rng.randrange(len(tokens))
            tokens[place], tokens[other] = tokens[other], tokens[place]
    return "".join(tokens) + rest


def attempt(path: Path, text: str) -> bool:
    path.write_text(text)
    try:
        relay.load(path)
    except Error as error:
        assert str(error).startswith("m.relay")
        return False
    return True


def test_own_text_loads_undamaged(tmp_path: Path) -> None:
    assert attempt(tmp_path / "m.relay", OWN)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_text_raises_errors_only(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    accepted = sum(attempt(tmp_path / "m.relay", mutated(OWN, rng)) for _ in range(60))
    assert accepted < 60


@pytest.mark.parametrize("name", SMALL)
def test_damaged_fixture_raises_errors_only(tmp_path: Path, name: str) -> None:
    path = FIXTURES / f"{name}.relay"
    if not path.exists():
        pytest.skip(f"no fixture {path}")
    rng = random.Random(name)
    text = path.read_text()
    for _ in range(45):
        attempt(tmp_path / "m.relay", mutated(text, rng))


def test_truncated_text_raises_errors_only(tmp_path: Path) -> None:
    for length in range(0, len(OWN), 37):
        attempt(tmp_path / "m.relay", OWN[:length])


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "m.relay").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Error, match="not a Relay text"):
        relay.load(tmp_path / "m.relay")
