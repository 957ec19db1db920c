"""What the SCons tools share: the package around them, nodes of a build, and how mistakes are told. No tool itself."""

from __future__ import annotations

import functools
import glob
import hashlib
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import ClassVar

from SCons.Errors import StopError
from SCons.Node import Node, NodeList
from SCons.Node.Python import ValueWithMemo

HERE = os.path.dirname(os.path.abspath(__file__))


def _package_dir() -> str:
    """The folder of the Python package: above this file in a checkout, around it in a wheel."""
    for relative in (("..", "..", "tvm_stm32"), ("..", "..", "..")):
        folder = os.path.normpath(os.path.join(HERE, *relative))
        if os.path.isfile(os.path.join(folder, "cnames.py")):
            return folder
    raise StopError(f"the tvm_stm32 package is not around {HERE}: use the tools where they are, with toolpath=[...].")


PACKAGE = _package_dir()
# SCons takes this away again when the tool is loaded; by then the package is known by its folder.
sys.path.insert(0, os.path.dirname(PACKAGE))

from tvm_stm32.errors import Error
from tvm_stm32.generator import generator_files, package_records
from tvm_stm32.resources import resource_dir


class Network(NodeList):
    """The C files of a network; ``headers``, ``include`` and ``report`` are its other nodes."""

    outputs: ClassVar[list[Node]] = []
    headers = ()
    include = None
    report = None
    report_text = None
    flags: ClassVar[list[object]] = []
    overrides: ClassVar[dict[str, object]] = {}
    c_api = "ai"
    name = ""
    arena: SharedArena
    asked: ClassVar[dict[str, object]] = {}


class SharedArena:
    """Flags of a network's compile that are known when it may have joined a group, after its builder was called."""

    def __init__(self) -> None:
        self.name = ""

    def __call__(self, target, source, env, for_signature) -> str:  # noqa: ARG002 - names SCons calls it by
        return f"--shared-arena={self.name}" if self.name else ""


class Runtime(NodeList):
    """The C file of the ai_* runtime; ``files`` maps the runtime's files to their nodes in the build."""

    files: ClassVar[dict[str, Node]] = {}
    include = ()


def networks_in(sources) -> Iterator[Network]:
    """The networks among sources, which may be lists of lists."""
    if isinstance(sources, Network):
        yield sources
    elif isinstance(sources, (list, tuple)):
        for item in sources:
            yield from networks_in(item)


def builder_method(function: Callable) -> Callable:
    """A method of an environment whose user errors stop SCons with one message and the user's line."""

    @functools.wraps(function)
    def method(env, *arguments, **keywords):
        try:
            return function(env, *arguments, **keywords)
        except Error as error:
            raise StopError(f"{error}\n  in: {_user_line()}\n") from error

    return method


def _user_line() -> str:
    """``file, line N`` of the SConscript that called one of the tools."""
    frame = sys._getframe()
    while frame is not None:
        path = frame.f_code.co_filename
        if os.path.dirname(path) != HERE and f"{os.sep}SCons{os.sep}" not in path:
            return f"{os.path.relpath(path, _top())}, line {frame.f_lineno}"
        frame = frame.f_back
    return "the command line"


def _top() -> str:
    from SCons.Node.FS import get_default_fs

    return get_default_fs().Top.get_abspath()


def identity(**facts: object) -> Node:
    """A node of what a build depends on beside its files: canonical JSON, the same on every machine."""
    # Not the function of SConscripts, which makes the default environment: that looks for compilers.
    return ValueWithMemo(json.dumps(facts, sort_keys=True, separators=(",", ":")))


@functools.cache
def content(*names: str) -> str:
    """Digest of files of the package, by their path in it."""
    digest = hashlib.sha256()
    for name in names:
        digest.update(name.encode() + b"\0")
        with open(os.path.join(PACKAGE, name), "rb") as stream:
            digest.update(hashlib.sha256(stream.read()).digest())
    return digest.hexdigest()


@functools.cache
def _package_versions(python: str) -> dict[str, str]:
    """Versions of the packages the generator works with."""
    if python == sys.executable:
        folders = sys.path
    else:
        prefix = glob.escape(os.path.dirname(os.path.dirname(os.path.abspath(python))))
        folders = glob.glob(f"{prefix}/lib*/python3*/site-packages") + glob.glob(f"{prefix}/Lib/site-packages")
    return {package: version for package, (version, _) in package_records(folders).items()}


def generator(env) -> dict[str, object]:
    """Version and content of the generator as facts for :func:`identity`: an edit of it regenerates."""
    python = env.subst("$PYTHON")
    if not os.path.dirname(python):
        python = env.WhereIs(python) or python
    return {"generator": _generator_content(), "packages": _package_versions(python)}


@functools.cache
def _generator_content() -> str:
    return content(*generator_files())


class BoardUse:
    """A board as the tools use it: ``name``, ``argument`` of command lines, ``node`` builds depend on."""

    flags: list[str] | None = None
    """Compiler flags, where they are known without the file at ``path``."""

    @classmethod
    def of(cls, env, board: object) -> BoardUse:
        """A board given by its name, as a file, or as what ``CmsisDevice`` returned."""
        use = getattr(board, "use", None)
        return use if isinstance(use, BoardUse) else cls(env, board)

    def __init__(self, env, board: str | Node) -> None:
        text = str(board)
        if isinstance(board, Node) or "/" in text or os.sep in text or text.endswith((".yaml", ".yml")):
            self.node = env.File(board)
            self.argument = self.node
            self.path = self.node.srcnode().get_abspath()
            self.name = os.path.splitext(self.node.name)[0]
            return
        self.name = self.argument = text
        self.path = str(resource_dir("boards") / f"{text}.yaml")
        if text == "host":
            self.node = identity(board=text)
            return
        if not os.path.isfile(self.path):
            from tvm_stm32.boards import load_board

            load_board(text)
        with open(self.path, "rb") as stream:
            self.node = identity(board=text, sha256=hashlib.sha256(stream.read()).hexdigest())


def place(env, target: str | Node) -> tuple[Node, str]:
    """Folder node and file name of a target given as a string (``#`` and variables allowed) or a node."""
    if isinstance(target, Node):
        return target.dir, target.name
    folder, name = os.path.split(env.subst(str(target)))
    return env.Dir(folder or "."), name
