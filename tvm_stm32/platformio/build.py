"""Models of a PlatformIO environment as nodes of its build, made by the SCons tool ``stm32_model``."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from SCons.Errors import StopError
from SCons.Script import ARGUMENTS, Action

from ..boards import list_boards
from ..errors import Error, TargetError, quoted
from ..resources import resource_dir
from ..target import known_cpus
from .interpreter import find_python
from .options import PREFIX, ModelLine, about, check_settings, parse_defaults, parse_models

FOLDER = "$BUILD_DIR/tvm_models"
REPORT_TARGET = "tvm_report"


def add_models(env: Any) -> None:
    """Link the models of ``custom_tvm_models`` into the program of ``env``, PlatformIO's global environment.

    A user's mistake stops SCons with one message.
    """
    # Cleaning removes the build folder as a whole; a model that has gone is no reason not to.
    if env.IsCleanTarget():
        return
    try:
        check_settings(name for name, _ in env.GetProjectOptions())
        text = _setting(env, "models")
        if text:
            _Networks(env).add(text)
    except Error as error:
        raise StopError(f"platformio.ini, [env:{env.subst('$PIOENV')}]: {error}\n") from error


def _setting(env: Any, name: str) -> str:
    return str(env.GetProjectOption(PREFIX + name, "")).strip()


def _core(env: Any) -> dict[str, str]:
    """The keyword of ``TvmModel`` that says what code is for."""
    board, cpu = _setting(env, "board"), _setting(env, "cpu")
    if board and cpu:
        raise Error("custom_tvm_board and custom_tvm_cpu are given both", why="a board says which CPU it has")
    if board:
        return {"BOARD": _board(env, board)}
    where = "custom_tvm_cpu"
    if not cpu:
        where = f"the board '{env['BOARD']}'" if "BOARD" in env else ""
        cpu = str(env.BoardConfig().get("build.cpu", "")).lower() if where else "host"
    if cpu not in known_cpus():
        raise TargetError(
            f"{where}: unknown CPU {quoted(cpu)}", hint=f"custom_tvm_cpu = one of {', '.join(known_cpus())}"
        )
    return {"CPU": cpu}


def _board(env: Any, board: str) -> str:
    if "/" in board or "\\" in board or board.endswith((".yaml", ".yml")):
        return _file(env, "custom_tvm_board", board)
    # Said here, since reading board files takes a package PlatformIO's Python lacks.
    known = ["host", *list_boards()]
    if board not in known:
        near = difflib.get_close_matches(board, known, 1)
        hint = near[0] if near else "a name that tvm-stm32 boards lists, a board file, or custom_tvm_cpu"
        raise TargetError(f"custom_tvm_board: unknown board {quoted(board)}", hint=hint)
    return board


def _file(env: Any, what: str, name: str) -> str:
    """A file's full path; relative names are from the project's folder."""
    path = Path(env.subst("$PROJECT_DIR")) / name
    if not path.is_file():
        raise Error(f"{what}: there is no file {quoted(name)}", hint="a path from the folder of platformio.ini")
    return str(path)


class _Networks:
    """The networks of one environment."""

    def __init__(self, env: Any) -> None:
        self.base = env
        self.core = _core(env)
        package = Path(__file__).resolve().parent.parent
        python = find_python(_setting(env, "python"), Path(env.subst("$PROJECT_DIR")), package, env["ENV"])
        env.Tool("stm32_model", toolpath=[str(resource_dir("site_scons") / "site_tools")])
        # Actions are printed as PlatformIO prints its own, and those of other scripts as ever.
        variables = {"PYTHON": [python], "INSTALLSTR": "Copying $TARGET"}
        if not int(ARGUMENTS.get("PIOVERBOSE", 0)):
            variables |= dict.fromkeys(("TVMSTM32COMSTR", "TVMSTM32ARENACOMSTR"), "Generating $TARGET")
        self.env = env.Override(variables)
        self.networks: dict[str, Any] = {}
        self.lines: dict[str, ModelLine] = {}
        self.arenas: dict[str, list[Any]] = {}

    def add(self, text: str) -> None:
        """Make the models' code part of the program, and their reports a target."""
        with about("custom_tvm_options"):
            defaults = parse_defaults(_setting(self.base, "options"))
        with about("custom_tvm_models"):
            for line in parse_models(text, defaults):
                with about(line.text):
                    self._add_model(line)
            groups = [_call(self.env.ArenaGroup, f"{FOLDER}/{name}", group) for name, group in self.arenas.items()]
        networks = list(self.networks.values())
        c_apis = sorted({network.c_api for network in networks} - {"ai"})
        runtime = self.env.TvmRuntime(f"{FOLDER}/runtime", C_API=c_apis)
        # The port is for images without a framework.
        include = [folder for folder in runtime.include if folder.name != "port"]
        self.base.Append(CPPPATH=[self.base.Dir(FOLDER), *include])
        self._compile(networks, [*groups, runtime])
        self._add_report(networks)

    def _add_model(self, line: ModelLine) -> None:
        keywords = {key.upper(): value for key, value in line.options.items()}
        name = keywords.pop("NAME", "") or _call(self.env.NetworkName, line.path)
        arena, flags = keywords.pop("ARENA", ""), keywords.pop("FLAGS", [])
        if name in self.lines:
            why = f"that is the name of: {self.lines[name].text}"
            raise Error(f"its C name is '{name}'", why=why, hint=f"name={name}_2 in one of the two lines")
        model = _file(self.base, "the model", line.path)
        if "PARAMS" in keywords:
            keywords["PARAMS"] = _file(self.base, "params", keywords["PARAMS"])
        if keywords.get("POOLS", "board") != "board":
            keywords["POOLS"] = _file(self.base, "pools", keywords["POOLS"])
        network = _call(self.env.TvmModel, f"{FOLDER}/{name}", model, TVMSTM32FLAGS=flags, **self.core, **keywords)
        self.networks[name], self.lines[name] = network, line
        if arena:
            self.arenas.setdefault(arena, []).append(network)

    def _compile(self, networks: list[Any], others: list[Any]) -> None:
        flags = self.base.Split(_setting(self.base, "build_flags"))
        overrides = {"CCFLAGS": [_LateFlags(self.base, flags)]} if flags else {}
        objects = self.base.Object(others, **overrides)
        for network in networks:
            code, data, *more = self.base.Object(network, **overrides)
            if network.weights:
                # What the assembler includes is no dependency that SCons finds.
                self.base.Depends(data, network.weights)
            objects += [code, data, *more]
        self.base.Append(PIOBUILDFILES=objects)

    def _add_report(self, networks: list[Any]) -> None:
        names = [Path(network.report.name).with_suffix(".txt").name for network in networks]
        self.base.AddCustomTarget(
            REPORT_TARGET,
            [self.base.Dir(FOLDER).File(name) for name in names],
            Action(_print_files, None),
            title="Networks",
            description="Memory and operators of the networks",
        )


class _LateFlags:
    """``CCFLAGS`` of the project as they are when something is compiled, with more behind them.

    The flags of the board and the framework are not known yet when ``pre:`` scripts run.
    """

    def __init__(self, env: Any, more: list[str]) -> None:
        self.env = env
        self.more = more

    def __call__(self, target: Any, source: Any, env: Any, for_signature: bool) -> list[Any]:  # noqa: ARG002 - SCons's
        return [*self.env.Flatten(self.env.get("CCFLAGS", [])), *self.more]


def _print_files(target: Any, source: Any, env: Any) -> None:  # noqa: ARG001 - names SCons calls it by
    for node in source:
        print(Path(node.get_abspath()).read_text(encoding="utf-8"))


def _call(method: Any, *arguments: Any, **keywords: Any) -> Any:
    """A method of the SCons tool, whose errors name a line of a SConscript where this project has a platformio.ini."""
    try:
        return method(*arguments, **keywords)
    except StopError as stop:
        error = stop.__cause__
        if not isinstance(error, Error):
            raise
        message = error.message.removeprefix("TvmModel: ").removeprefix("ArenaGroup: ")
        raise Error(message, why=error.why, hint=error.hint) from error
