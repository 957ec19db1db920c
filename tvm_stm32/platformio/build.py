"""Models of a PlatformIO environment as nodes of its build, made by the SCons tool ``stm32_model``."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Any

from SCons.Errors import StopError
from SCons.Script import ARGUMENTS


from ..errors import Error, TargetError, quoted
from ..resources import resource_dir
from ..target import known_cpus
from .interpreter import find_python
from .options import PREFIX, ModelLine, at_line, check_settings, parse_defaults, parse_models

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
        where = f"the board {env['BOARD']}" if "BOARD" in env else ""
        cpu = str(env.BoardConfig().get("build.cpu", "")).lower() if where else "host"
    if cpu not in known_cpus():
        raise TargetError(f"{where}: unknown CPU '{cpu}'", hint=f"custom_tvm_cpu, one of {', '.join(known_cpus())}")
    return {"CPU": cpu}


def _board(env: Any, board: str) -> str:
    if "/" in board or "\\" in board or board.endswith((".yaml", ".yml")):
        return _file(env, "custom_tvm_board", board)
    # Said here, since reading board files takes a package PlatformIO's Python lacks.
    known = sorted(file.stem for file in resource_dir("boards").glob("*.yaml"))
    if board not in known:
        near = difflib.get_close_matches(board, known, 1)
        hint = near[0] if near else "a name tvm-stm32 boards lists, a board file, or custom_tvm_cpu"
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
        self.core = _core(env)
        package = Path(__file__).resolve().parent.parent
        python = find_python(_setting(env, "python"), Path(env.subst("$PROJECT_DIR")), package, env["ENV"])
        env.Tool("stm32_model", toolpath=[str(resource_dir("site_scons") / "site_tools")])
        env["PYTHON"] = [python]
        self.base = env
        # PlatformIO's way to print actions. Others' are not changed.
        verbose = int(ARGUMENTS.get("PIOVERBOSE", 0))
        words = {} if verbose else {"TVMSTM32COMSTR": "Generating $TARGET", "TVMSTM32ARENACOMSTR": "Generating $TARGET"}
        self.env = env.Override({"INSTALLSTR": "Copying $TARGET", **words})

    def add(self, text: str) -> None:
        """Make the models' code part of the program, and their reports a target."""
        try:
            defaults = parse_defaults(_setting(self.base, "options"))
        except Error as error:
            raise Error(f"custom_tvm_options: {error.message}", why=error.why, hint=error.hint) from error
        networks: dict[str, Any] = {}
        lines: dict[str, ModelLine] = {}
        arenas: dict[str, list[Any]] = {}
        try:
            models = parse_models(text, defaults)
            for line in models:
                self._add_model(line, networks, lines, arenas)
        except Error as error:
            raise Error(f"custom_tvm_models: {error.message}", why=error.why, hint=error.hint) from error
        sources = list(networks.values())
        sources += [_call(self.env.ArenaGroup, f"{FOLDER}/{name}", members) for name, members in arenas.items()]
        c_apis = sorted({network.c_api for network in sources[: len(networks)]} - {"ai"})
        runtime = self.env.TvmRuntime(f"{FOLDER}/runtime", C_API=c_apis)
        include = [folder for folder in runtime.include if folder.name != "port"]
        self.base.Append(CPPPATH=[self.base.Dir(FOLDER), *include])
        self._compile([*sources, runtime])
        self._add_report([network.report for network in networks.values()])

    def _add_model(
        self, line: ModelLine, networks: dict[str, Any], lines: dict[str, ModelLine], arenas: dict[str, list[Any]]
    ) -> None:
        try:
            keywords = {key.upper(): value for key, value in line.options.items()}
            name = keywords.pop("NAME", "") or _call(self.env.NetworkName, line.path)
            arena, flags = keywords.pop("ARENA", ""), keywords.pop("FLAGS", [])
            if name in lines:
                why = f"so has: {lines[name].text}"
                raise Error(f"the C name is '{name}'", why=why, hint=f"name={name}_2 in one of the two lines")
            if "PARAMS" in keywords:
                keywords["PARAMS"] = _file(self.base, "params", keywords["PARAMS"])
            if keywords.get("POOLS", "board") != "board":
                keywords["POOLS"] = _file(self.base, "pools", keywords["POOLS"])
            model = _file(self.base, "the model", line.path)
            network = _call(
                self.env.TvmModel, f"{FOLDER}/{name}", model, TVMSTM32FLAGS=flags, **self.core, **keywords
            )
        except Error as error:
            raise at_line(error, line.text) from error
        networks[name], lines[name] = network, line
        if arena:
            arenas.setdefault(arena, []).append(network)

    def _compile(self, sources: list[Any]) -> None:
        overrides = {}
        flags = self.base.ParseFlags(_setting(self.base, "build_flags"))["CCFLAGS"]
        if flags:
            overrides["CCFLAGS"] = [_After(self.base, flags)]
        objects = self.base.Object(sources, **overrides)
        for network in sources:
            weights = getattr(network, "weights", None)
            if weights is not None:
                # What the assembler includes, no scanner sees.
                self.base.Depends(objects, weights)
        self.base.Append(PIOBUILDFILES=objects)

    def _add_report(self, reports: list[Any]) -> None:
        files = [report.dir.File(report.name.replace(".json", ".txt")) for report in reports]
        self.base.AddCustomTarget(
            REPORT_TARGET,
            files,
            self.base.VerboseAction(_print_files, ""),
            title="Networks",
            description="Memory, cycles and operators of the networks",
        )


class _After:
    """``CCFLAGS`` of the networks: the project's as they are when something is compiled, then ``custom_tvm_build_flags``.

    The board's flags are not known yet when ``pre:`` scripts run.
    """

    def __init__(self, env: Any, flags: list[str]) -> None:
        self.env = env
        self.flags = flags

    def __call__(self, target: Any, source: Any, env: Any, for_signature: bool) -> list[Any]:  # noqa: ARG002 - SCons
        return [*self.env.Flatten(self.env.get("CCFLAGS", [])), *self.flags]


def _print_files(target: Any, source: Any, env: Any) -> None:  # noqa: ARG001 - names SCons calls it by
    for node in source:
        print(Path(node.get_abspath()).read_text(encoding="utf-8"))


def _call(method: Any, *arguments: Any, **keywords: Any) -> Any:
    """A method of the SCons tool, whose errors name a line of a SConscript where this project has a platformio.ini."""
    try:
        return method(*arguments, **keywords)
    except StopError as stop:
        if isinstance(stop.__cause__, Error):
            raise stop.__cause__ from None
        raise
