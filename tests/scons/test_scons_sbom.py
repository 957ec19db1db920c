"""``Sbom`` in SCons builds: made when asked for, of what the image is made of, and by no other build."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from checkouts import Checkout
from scons_support import Project, built_once

TOOL = """
env.Tool("stm32_sbom", toolpath=["#tools/site_scons/site_tools"])
env["TVMSTM32SBOMCOMSTR"] = "SBOM $TARGET"
"""
CALL = """
env.Sbom("build/app.cdx.json", image, VERSION="1.4.0")
# Linked by other means than Firmware.
env.Sbom("build/other.cdx.json", "main.c", NETWORKS=network)
"""


@pytest.fixture
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A built project; read only."""
    return built_once(tmp_path_factory)


def test_it_is_made_when_asked_for_and_says_what_is_in_the_image(built: Project, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "checkout", built, TOOL)
    checkout.write("SConstruct", checkout.path("SConstruct").read_text("utf-8") + CALL)
    options = checkout.options
    assert "SBOM" not in checkout.scons(*options).output
    assert checkout.scons(*options).is_null
    # Also where everything below a folder is asked for.
    assert checkout.scons(*options, "build").is_null

    assert "SBOM build/app.cdx.json" in checkout.scons(*options, "sbom").output
    assert "is up to date" in checkout.scons(*options, "build/app.cdx.json").output
    made = json.loads(checkout.path("build/app.cdx.json").read_text("utf-8"))
    image = made["metadata"]["component"]
    assert (image["name"], image["version"]) == ("app.elf", "1.4.0")
    assert image["hashes"][0]["content"] == hashlib.sha256(checkout.image).hexdigest()
    found = {part["name"]: part for part in made["components"]}
    model = hashlib.sha256(checkout.path("model.onnx").read_bytes()).hexdigest()
    assert found["model.onnx"]["hashes"] == [{"alg": "SHA-256", "content": model}]
    assert {"ai_runtime", "apache-tvm", "tvm-stm32", "GCC", "libc_nano.a"} <= set(found)
    assert "timestamp" not in made["metadata"]
    other = json.loads(checkout.path("build/other.cdx.json").read_text("utf-8"))
    assert [part["name"] for part in other["components"]] == ["model.onnx", "ai_runtime", "apache-tvm", "tvm-stm32"]

    dated = checkout.scons(*options, "sbom", variables={"SOURCE_DATE_EPOCH": "0"})
    assert sorted(dated.output.splitlines()) == ["SBOM build/app.cdx.json", "SBOM build/other.cdx.json"]
    made = json.loads(checkout.path("build/app.cdx.json").read_text("utf-8"))
    assert made["metadata"]["timestamp"] == "1970-01-01T00:00:00Z"


def test_one_document_is_of_one_image(built: Project, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "checkout", built, TOOL)
    checkout.write("SConstruct", checkout.path("SConstruct").read_text("utf-8") + CALL.replace("image,", "[],"))
    build = checkout.scons(*checkout.options, fails=True)
    assert "Sbom: 0 images for 'app.cdx.json'" in build.output
