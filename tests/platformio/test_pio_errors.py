"""What PlatformIO users read when something is wrong: platformio.ini, the line, what to do; never a traceback."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from pio_support import INI, SCRIPT, PlatformIO, write_pio_project
from scons_support import copy_tools

from tvm_stm32.errors import Error
from tvm_stm32.platformio.options import check_settings, parse_defaults, parse_models

# An environment each: its settings, and what is to be read after its name.
MISTAKES = {
    "setting": (
        "board = hard\ncustom_tvm_modles = models/tiny.onnx",
        "there is no setting custom_tvm_modles\n  try: custom_tvm_models",
    ),
    "option": (
        "board = hard\ncustom_tvm_models = models/tiny.onnx levl=ram",
        "custom_tvm_models: models/tiny.onnx levl=ram: 'levl=ram' is no option\n  try: level=...",
    ),
    "missing": (
        "board = hard\ncustom_tvm_models = models/tyni.onnx  level=ram",
        "custom_tvm_models: models/tyni.onnx  level=ram: the model: there is no file 'models/tyni.onnx'\n  try: a path",
    ),
    "twice": (
        "board = hard\ncustom_tvm_models =\n  models/tiny.onnx\n  models/broken.onnx name=tiny",
        "custom_tvm_models: models/broken.onnx name=tiny: its C name is 'tiny'\n"
        "  because: that is the name of: models/tiny.onnx\n  try: name=tiny_2 in one of the two lines",
    ),
    "name": (
        "board = hard\ncustom_tvm_models = models/tiny.onnx name=Tiny-1",
        "custom_tvm_models: models/tiny.onnx name=Tiny-1: 'Tiny-1' is no C name for a network\n  try: 'tiny_1'",
    ),
    "board_cpu": (
        "board = hard\nboard_build.cpu = arm7tdmi\ncustom_tvm_models = models/tiny.onnx",
        "the board 'hard': unknown CPU 'arm7tdmi'\n  try: custom_tvm_cpu = one of host, cortex-m0,",
    ),
    "both": (
        "custom_tvm_cpu = cortex-m4\ncustom_tvm_board = host\ncustom_tvm_models = models/tiny.onnx",
        "custom_tvm_board and custom_tvm_cpu are given both\n  because: a board says which CPU it has",
    ),
    "board": (
        "custom_tvm_board = nucleo-f446er\ncustom_tvm_models = models/tiny.onnx",
        "custom_tvm_board: unknown board 'nucleo-f446er'\n  try: nucleo-f446re",
    ),
    "python": (
        "board = hard\ncustom_tvm_python = venv/bin/python\ncustom_tvm_models = models/tiny.onnx",
        "custom_tvm_python: there is no program 'venv/bin/python'\n  try: the Python of the environment",
    ),
}


@pytest.fixture
def pio(tmp_path_factory: pytest.TempPathFactory) -> PlatformIO:
    """The PlatformIO of this session."""
    return PlatformIO.installed(tmp_path_factory)


def test_mistakes_name_platformio_ini_and_the_line(pio: PlatformIO, tmp_path: Path) -> None:
    # A submodule leads to the script as well.
    script = "third_party/tvm-stm32/tvm_stm32/platformio/extra_script.py"
    common = INI.partition("custom_tvm_models")[0].replace(str(SCRIPT), script)
    environments = [f"[env:{name}]\n{settings}\n" for name, (settings, _) in MISTAKES.items()]
    project = write_pio_project(tmp_path / "p", pio, "\n".join([common, *environments]))
    copy_tools(project.path("third_party/tvm-stm32"))
    project.write("models/broken.onnx", "no model")
    output = project.run(fails=True).output
    for name, (_, message) in MISTAKES.items():
        assert f"*** platformio.ini, [env:{name}]: {message}" in output


def test_a_model_that_is_none_fails_the_build(pio: PlatformIO, tmp_path: Path) -> None:
    project = write_pio_project(tmp_path / "p", pio)
    project.write("models/tiny.onnx", "no model")
    build = project.run("-e", "hard", "-t", "tvm_report", fails=True)
    assert build.of("Generating") == ["tiny.c"]
    assert "error: tiny.onnx" in build.output


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("kws.onnx level=fast", "level is 'fast'\n  try: one of time, balanced, ram, size"),
        ("kws.onnx max_ram=0", "max_ram is '0'\n  try: a number of bytes"),
        ("kws.onnx level=", "'level=' is no option\n  try: level=..."),
        ("kws.onnx ram", "'ram' is no option\n  try: params=..."),
        ("kws.onnx other.onnx", "'other.onnx' is no option\n  try: key=value"),
        ("kws.onnx level=ram level=ram", "'level' is given twice"),
        ("kws.onnx pins=input", "pins has 'input'\n  try: pins=NAME=VALUE,NAME=VALUE"),
        ('"kws.onnx level=ram', "a quote is not closed"),
        ('"" level=ram', "there is no model file"),
        ('kws.onnx flags="--name=x"', "flags has '--name=x'\n  because: the build has to know it\n  try: name=..."),
        ('kws.onnx flags="-o ../x"', "flags has '-o'"),
        ("kws.onnx name=", "'name=' is no option\n  try: name=..."),
        ("""kws.onnx flags="--name 'kws" """.strip(), "a quote is not closed"),
    ],
)
def test_lines_that_are_wrong(line: str, message: str) -> None:
    with pytest.raises(Error) as error:
        parse_models(f"good.onnx level=ram\n\n  {line}\n", {})
    assert str(error.value).startswith(f"{line}: {message}")


def test_lines_and_defaults() -> None:
    defaults = parse_defaults("level=ram\nkernels=c")
    text = r"""
        a.onnx
        "my models\b.tflite"  level=size pins=x:0=DTCM,y=AXI external_io=x,y flags="--input-shape x:1,2"
    """
    first, second = parse_models(text, defaults)
    assert (first.path, first.options) == ("a.onnx", {"level": "ram", "kernels": "c"})
    assert second.path == "my models\\b.tflite"
    assert second.options == {
        "level": "size",
        "kernels": "c",
        "pins": {"x:0": "DTCM", "y": "AXI"},
        "external_io": ["x", "y"],
        "flags": ["--input-shape", "x:1,2"],
    }


def test_names_are_of_one_model_only() -> None:
    with pytest.raises(Error, match="'name=kws' is no option\n  because: 'name' is of one model"):
        parse_defaults("level=ram name=kws")


def test_a_setting_like_no_other() -> None:
    check_settings(["custom_tvm_cpu", "custom_other", "board"])
    with pytest.raises(Error, match="no setting custom_tvm_xyzzy\n  try: custom_tvm_models or custom_tvm_options or"):
        check_settings(["custom_tvm_xyzzy"])


def test_a_python_that_is_too_old_can_read_the_script() -> None:
    ast.parse(SCRIPT.read_text(encoding="utf-8"), feature_version=(3, 7))
