"""Damaged texts, JSON graphs and parameter files never do anything but raise this project's errors."""

from __future__ import annotations

import json
import random
import re
import resource
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
GIGABYTE = 1 << 30


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


def mutated_graph(text: str, rng: random.Random) -> str:
    """A graph with fields, indices and whole nodes changed; now and then damaged as text."""
    if rng.random() < 0.15:
        return mutated(text, rng)
    document = json.loads(text)
    nodes: list[dict[str, Any]] = document["nodes"]
    for _ in range(rng.choice([1, 1, 2, 4])):
        node = rng.choice(nodes)
        members: list[tuple[Any, Any]] = [(node, key) for key in node]
        for part in node.values():
            if isinstance(part, dict | list):
                members += [(part, key) for key in (part if isinstance(part, dict) else range(len(part)))]
        if not members:
            continue
        holder, key = rng.choice(members)
        other = rng.choice(nodes)
        kind = rng.randrange(5)
        if kind == 0:
            del holder[key]
        elif kind == 1:
            holder[key] = str(rng.randrange(len(nodes))) if isinstance(key, str) else rng.randrange(len(nodes))
        elif kind == 2:
            holder[key] = rng.choice([None, -1, "-1", "99999999999", [], {}, "nan", 1e308, True, "\ud800", "1" * 5000])
        elif kind == 3:
            node["type_key"] = other.get("type_key", "")
        else:
            node.clear()
            node.update(other)
    return json.dumps(document)


def attempt(path: Path, text: str) -> bool:
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        relay.load(path)
    except Error as error:
        assert str(error).startswith(path.name)
        return False
    return True


@pytest.fixture(autouse=True)
def _memory_stays_below_a_gigabyte() -> Any:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    yield
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert after == before or after < before + (GIGABYTE >> 10)


def test_own_text_loads_undamaged(tmp_path: Path) -> None:
    assert attempt(tmp_path / "m.relay", OWN)


@pytest.mark.parametrize("seed", range(4))
def test_damaged_text_raises_errors_only(tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    accepted = sum(attempt(tmp_path / "m.relay", mutated(OWN, rng)) for _ in range(60))
    assert accepted < 60


@pytest.mark.parametrize(("suffix", "mutate"), [("relay", mutated), ("json", mutated_graph)])
@pytest.mark.parametrize("name", SMALL)
def test_damaged_fixture_raises_errors_only(
    tmp_path: Path, name: str, suffix: str, mutate: Callable[[str, random.Random], str]
) -> None:
    path = FIXTURES / f"{name}.{suffix}"
    if not path.exists():
        pytest.skip(f"no fixture {path}")
    rng = random.Random(name)
    text = path.read_text()
    for _ in range(30):
        attempt(tmp_path / f"m.{suffix}", mutate(text, rng))


def test_truncated_text_raises_errors_only(tmp_path: Path) -> None:
    for length in range(0, len(OWN), 37):
        attempt(tmp_path / "m.relay", OWN[:length])


def test_bytes_that_are_no_text_are_an_error(tmp_path: Path) -> None:
    (tmp_path / "m.relay").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(Error, match="not a Relay text"):
        relay.load(tmp_path / "m.relay")
