"""Two machines make the same bytes: folders, homes, times, languages and numbers of jobs differ."""

from __future__ import annotations

from pathlib import Path

import pytest
from checkouts import Checkout
from scons_support import Project, built_once, require_tools

SETTINGS = """
env.Append(LINKFLAGS=["-Wl,--build-id=sha1"])
"""
HEAD_LINES = """
const char *const build_text = __FILE__ " " __DATE__ " " __TIME__;
"""
MACHINES = (
    {"TZ": "Pacific/Auckland", "LC_ALL": "C", "HOME": "/nonexistent", "PYTHONHASHSEED": "1", "USER": "a"},
    {"TZ": "America/Los_Angeles", "LC_ALL": "C.UTF-8", "LANG": "de_DE.UTF-8", "PYTHONHASHSEED": "2", "USER": "b"},
)


@pytest.fixture
def built(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A built project; read only."""
    return built_once(tmp_path_factory)


def files(project: Project) -> dict[str, bytes]:
    """Everything the build has made."""
    folder = project.path("build")
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_file_of_two_builds_is_equal(built: Project, tmp_path: Path) -> None:
    require_tools("arm-none-eabi-gcc")
    one = Checkout(tmp_path / "a", built, SETTINGS)
    other = Checkout(tmp_path / "another folder, with a much longer name/and more in it", built, SETTINGS)
    for project in (one, other):
        # The image has its date; the application keeps it.
        project.edit("main.c", "int main", f"{HEAD_LINES}\nint main")
        project.edit("main.c", "(void)argc;", "(void)argc;\n    port_print(build_text);")
    epoch = {"SOURCE_DATE_EPOCH": "1700000000"}
    # The network of one is what the generator made in the folder of `built`; the other makes its own.
    one.scons("-j1", *one.options, variables=epoch | MACHINES[0])
    other.scons("-j4", variables=epoch | MACHINES[1] | {"HOME": str(tmp_path)})

    made, again = files(one), files(other)
    assert list(made) == list(again)
    assert [name for name, content in made.items() if again[name] != content] == []
    image = made["app.elf"]
    assert b"main.c Nov 14 2023 22:13:20" in image
    assert b".note.gnu.build-id" in image
    for name, content in made.items():
        assert str(tmp_path).encode() not in content, name


def test_the_date_is_that_of_the_variable(built: Project, tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "checkout", built)
    # As SCons has it by default: no variables but PATH.
    checkout.edit("SConstruct", "ENV=dict(os.environ)", "ENV={'PATH': os.environ['PATH']}")
    checkout.write("startup.c", "const char *date = __DATE__;\n")
    checkout.scons(*checkout.options, "build/app.elf.obj/runtime/startup.o", variables={"SOURCE_DATE_EPOCH": "1"})
    assert b"Jan  1 1970" in checkout.path("build/app.elf.obj/runtime/startup.o").read_bytes()
