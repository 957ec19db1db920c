"""SCons tool ``stm32_packs``: a device of a CMSIS pack as nodes of the build.

    env = Environment(tools=["default", "stm32_model", "stm32_firmware", "stm32_packs"])
    device = env.CmsisDevice("STM32F405RGTx", packs="packs.lock", components=["CMSIS:CORE"])
    network = env.TvmModel("build/net/kws", "models/kws.tflite", BOARD=device)
    image = env.Firmware("build/app.elf", ["main.c", network], BOARD=device)

``CmsisDevice(name, packs="packs.lock", components=[...])`` looks the device up in the packs of the lock, which
``tvm-stm32 packs install`` has put into the cache: nothing is downloaded while SConscripts are read. The name may be
that of a board of this project, or a board file: its chip is looked up, memories and clocks are the board's. A board
without ``packs`` and ``components`` needs no pack. Keywords: ``processor`` (CM7, of a device with several),
``security`` (of a processor with TrustZone), ``folder`` for what is generated (default: ``build/cmsis/<device>``),
``rte`` for copies of config files (default: ``RTE``), which belong to the project and are never overwritten. Asked
again for the same, it gives the same device.

The result's ``flags``, ``defines`` and ``include`` are for environments of your own; ``board`` (a board file),
``headers`` (RTE_Components.h, port_vectors.h), ``configs``, ``startup`` and ``linker_script`` (the pack's where it has
start-up code), ``system`` and ``objects`` (the components' sources, compiled once for all images) are nodes.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shlex
from pathlib import Path

from SCons.Node import Node, NodeList
from SCons.Scanner.C import CScanner
from SCons.Script import Action, GetOption
from SCons.Subst import Literal
from SCons.Util import CLVar
from stm32_firmware import board_facts
from stm32_nodes import PACKAGE, BoardUse, builder_method, content, identity
from stm32_objects import COMPILED, compiled_objects, device_environment

from tvm_stm32.errors import Error
from tvm_stm32.resources import resource_dir

_ROOT = os.path.dirname(PACKAGE)
# Devices by the folder of what is generated for them, with what was asked.
_DEVICES: dict[str, tuple[dict[str, object], Device]] = {}
_PLAN_LISTS = (
    "facts",
    "flags",
    "defines",
    "sources",
    "include",
    "configs",
    "libraries",
    "linker_scripts",
    "pre_includes",
)
_HEADERS = (".h", ".hpp", ".hh", ".inc")


class DeviceUse(BoardUse):
    """The board file made for a device."""

    def __init__(self, name: str, node: Node, flags: list[str]) -> None:
        self.name, self.node, self.argument, self.flags = name, node, node, flags
        self.path = node.get_abspath()


class Device:
    """What :func:`cmsis_device` returns."""

    def __init__(self, use: BoardUse) -> None:
        self.use = use
        self.flags: list[str] = list(use.flags or [])
        self.defines: list[str] = []
        self.include: list[Node] = []
        self.board: Node | None = None
        self.headers: list[Node] = []
        self.configs: list[Node] = []
        self.startup: list[Node] = []
        self.system: list[Node] = []
        self.linker_script: Node | None = None
        self.brings_startup = False
        self.has_vectors = False
        self.maps: list[str] = []
        self.depends: list[Node] = []
        self.objects: list[Node] = []
        self.libraries: list[Node] = []
        self.packs: dict[str, str] = {}
        self.lock: Node | None = None

    def prepare(self, env) -> None:
        """Give an environment the macros and folders of headers; call it before objects are made."""
        vectors = ["PORT_VECTORS"] if self.has_vectors and not self.brings_startup else []
        known = {str(define) for define in env.Flatten([env.get("CPPDEFINES", [])])}
        env.Append(CPPDEFINES=[define for define in [*self.defines, *vectors] if define not in known])
        if "AI_USE_SECTIONS" not in self.defines:
            env["CPPDEFINES"] = [define for define in env["CPPDEFINES"] if str(define) != "AI_USE_SECTIONS"]
        env["CPPPATH"] = [*env["CPPPATH"], *self.include]
        env.Append(LIBS=self.libraries)
        # Objects and images are the same wherever the cache is.
        env["CCFLAGS"] = CLVar([*env["CCFLAGS"], "$(", *self.maps, "$)"])


@builder_method
def cmsis_device(
    env, name, packs=None, components=(), processor="", security="TZ-disabled", folder=None, rte="RTE"
) -> Device:
    """The ``CmsisDevice`` method."""
    texts = {"name": name, "packs": packs or "", "processor": processor, "security": security, "rte": rte}
    for keyword, text in {**texts, "folder": folder or ""}.items():
        if not isinstance(text, (str, Node)) or (keyword == "name" and not text):
            raise Error(f"CmsisDevice: {keyword} is {text!r}", hint="a text")
    use = BoardUse(env, name) if _is_board(name) else None
    own = f"{use.name if use is not None else str(name).lower()}{f'-{processor.lower()}' if processor else ''}"
    place = env.Dir(folder or f"#build/cmsis/{own}")
    asked = {
        "device": str(name) if use is None else "", "processor": processor, "security": security,
        "components": [str(c) for c in env.Flatten([components])],
        "board": str(use.path) if use is not None else "",
    }  # fmt: skip
    whole = {**asked, "packs": str(packs or ""), "rte": str(rte)}
    known, device = _DEVICES.get(place.get_abspath(), (whole, None))
    if known != whole:
        raise Error(f"CmsisDevice: '{place}' is the folder of another device", hint="give one of them another folder=")
    if device is None:
        if use is not None and not (packs or components or processor):
            device = _of_board(env, use, place)
        else:
            # Copies that belong to the project are no files of a variant.
            device = _of_packs(env, env.File(packs or "packs.lock"), asked, use, place, env.Dir(rte).srcnode())
        _DEVICES[place.get_abspath()] = whole, device
    return device


def _of_packs(env, lock: Node, asked: dict[str, object], use: BoardUse | None, place: Node, rte: Node) -> Device:
    plan = _plan(lock, place, asked)
    derived = device_environment(env, plan["flags"])
    # Commands find the packs where this process does.
    derived["ENV"].update({variable: os.environ[variable] for variable in _places() if variable in os.environ})
    made = _generated(derived, lock, asked, plan, use, place)
    device = Device(use if use is not None else DeviceUse(plan["board"], made[4], plan["flags"]))
    device.lock = lock
    device.packs = {pack: facts["sha256"] for pack, facts in plan["packs"].items()}
    device.flags, device.has_vectors = list(plan["flags"]), True
    device.board, device.headers = device.use.node, made[:2]
    device.defines = plan["defines"]
    device.include = [place, *(_node_of(path, rte, env.Dir) for path in plan["include"])]
    device.libraries = [env.File(path) for path in plan["libraries"]]
    device.configs = [_config(derived, entry, rte) for entry in plan["configs"]]
    _add_components(derived, device, plan, place, startup=made[2], script=made[3])
    return device


def _generated(env, lock: Node, asked, plan, use: BoardUse | None, place: Node) -> NodeList:
    """Vectors, RTE_Components.h, start-up code, linker script, and a board file unless there is one."""
    words = [word for component in asked["components"] for word in ("--component", Literal(component))]
    words += ["--device", Literal(asked["device"])] if use is None else ["$(", "--board", use.argument, "$)"]
    words += ["--processor", Literal(asked["processor"])] if asked["processor"] else []
    words += ["--security", asked["security"]] if asked["security"] != "TZ-disabled" else []
    files = ["port_vectors.h", "RTE_Components.h", "startup.c", "device.ld"]
    files += [f"{plan['board']}.yaml"] if use is None else []
    made = env.Command(
        [place.File(file) for file in files],
        [],
        Action("$TVMSTM32DEVICECOM", "$TVMSTM32DEVICECOMSTR"),
        _TVMSTM32DEVICEFLAGS=words,
        _TVMSTM32COMPILER=shlex.quote(env.subst("$CC")),
        TVMSTM32LOCK=lock,
        IMPLICIT_COMMAND_DEPENDENCIES=0,
    )
    sums = {pack: facts["sha256"] for pack, facts in plan["packs"].items()}
    # Where a board file lies is no property of the device.
    facts = identity(device={**asked, "board": bool(asked["board"])}, packs=sums, code=_code())
    env.Depends(made, [facts, _script_template(env), *([use.node] if use is not None else [])])
    env.Depends(made, [env.File(path) for path in plan["facts"]])
    return made


def _add_components(env, device: Device, plan, place: Node, *, startup: Node, script: Node) -> None:
    """Objects of the components' sources; ``startup`` and ``script`` are used where no component brings its own."""
    sources = [*(env.File(path) for path in plan["sources"]), *device.configs]
    scripts = [
        *(node for node in device.configs if node.name.endswith((".ld", ".lds", ".ld.S"))),
        *(env.File(path) for path in plan["linker_scripts"]),
    ]
    code = [node for node in sources if node not in scripts and not node.name.lower().endswith(_HEADERS)]
    for node in code:
        if not node.name.endswith(COMPILED):
            raise Error(f"CmsisDevice: '{node.name}' of a component is compiled by nothing", hint=", ".join(COMPILED))
    first = [node for node in code if node.name.lower().startswith("startup")]
    device.brings_startup = bool(first)
    if first and scripts:
        # The pack's script has no section for arena and pools.
        device.defines = [define for define in device.defines if define != "AI_USE_SECTIONS"]
    device.linker_script = scripts[0] if first and scripts else script
    device.system = [node for node in code if node.name.lower().startswith("system_")]
    device.maps = [f"-ffile-prefix-map={of['folder']}={pack.partition('@')[0]}" for pack, of in plan["packs"].items()]
    pre_includes = [env.File(path) for path in plan["pre_includes"]]
    device.depends = [*pre_includes, *_with_includes(env, plan["header"], device.include)]
    device.prepare(env)
    _hide_places(env)
    env.Append(CCFLAGS=CLVar([word for node in pre_includes for word in ("$(", "-include", node, "$)")]))
    device.objects = compiled_objects(env, place.Dir("obj"), [node for node in code if node not in first])
    device.startup = compiled_objects(env, place.Dir("startup"), first or [startup])
    # What includes them is compiled again when they change; SCons sees that.
    env.Requires([*device.objects, *device.startup], device.headers)
    env.Depends(device.objects, [*device.depends, identity(pre_includes=[node.name for node in pre_includes])])


def _with_includes(env, header: str, include: list[Node]) -> list[Node]:
    """The device's header and what it includes: sources name it by a macro, through which SCons does not see."""
    if not header:
        return []
    scanner, path = CScanner(), tuple(include)
    found, todo = {}, [env.File(header)]
    while todo:
        node = todo.pop()
        if node.get_abspath() not in found and not node.has_builder():
            found[node.get_abspath()] = node
            todo += node.get_found_includes(env, scanner, path)
    return list(found.values())


def _is_board(name: object) -> bool:
    """Whether that is the name of a board of this project, or a board file."""
    text = str(name)
    return text.endswith((".yaml", ".yml")) or os.path.isfile(str(resource_dir("boards") / f"{text}.yaml"))


def _of_board(env, use: BoardUse, place: Node) -> Device:
    device = Device(use)
    device.flags = board_facts(use)[0]
    made = env.Command(
        [place.File("startup.c"), place.File("device.ld")],
        [],
        Action("$TVMSTM32BOARDCOM", "$TVMSTM32DEVICECOMSTR"),
        TVMSTM32BOARD=use.argument,
        IMPLICIT_COMMAND_DEPENDENCIES=0,
    )
    env.Depends(made, [use.node, _script_template(env), identity(code=_code())])
    derived = device_environment(env, device.flags)
    device.startup = compiled_objects(derived, place.Dir("startup"), [made[0]])
    device.board, device.defines, device.linker_script = use.node, ["AI_USE_SECTIONS"], made[1]
    return device


def _script_template(env) -> Node:
    return env.File(os.path.join(resource_dir("runtime"), "port", "image.ld.j2"))


def _plan(lock: Node, place: Node, asked: dict[str, object]) -> dict[str, object]:
    """What a build must know of the device now. Reading packs takes tenths of a second, so it is kept in ``place``."""
    path = lock.srcnode().get_abspath()
    try:
        with open(path, "rb") as stream:
            text = stream.read()
    except OSError as error:
        raise Error(
            f"CmsisDevice: cannot read '{lock}'", why=error.strerror or str(error), hint="tvm-stm32 packs install"
        ) from error
    roots = [os.environ.get(name, "") for name in _places()]
    key = hashlib.sha256(
        json.dumps([asked, text.decode("utf-8", "replace"), roots, _code(), path]).encode()
    ).hexdigest()
    kept = os.path.join(place.get_abspath(), ".plan.json")
    try:
        with open(kept, encoding="utf-8") as stream:
            plan = json.load(stream)
        folders = [facts["folder"] for facts in plan["packs"].values()]
        if plan["key"] == key and all(map(os.path.isdir, folders)) and plan["times"] == _times(plan["facts"]):
            return plan
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    from tvm_stm32.device_files import DeviceChoice, DeviceFiles

    choice = DeviceChoice(
        Path(path), asked["device"], asked["processor"], tuple(asked["components"]), asked["security"], Path("@RTE@"),
        asked["board"],
    )  # fmt: skip
    try:
        plan = {"key": key, **DeviceFiles.of(choice).plan()}
    except Error:
        if not (GetOption("clean") or GetOption("help")):
            raise
        # What was generated is cleaned without any pack.
        return {**dict.fromkeys(_PLAN_LISTS, ()), "board": os.path.basename(str(place)), "header": "", "packs": {}}
    plan["times"] = _times(plan["facts"])
    if not GetOption("no_exec"):
        # Without it the next run takes a little longer.
        with contextlib.suppress(OSError):
            os.makedirs(place.get_abspath(), exist_ok=True)
            with open(kept + ".part", "w", encoding="utf-8") as stream:
                json.dump(plan, stream)
            os.replace(kept + ".part", kept)
    return plan


def _times(paths: list[str]) -> list[int]:
    return [os.stat(path).st_mtime_ns if os.path.isfile(path) else 0 for path in paths]


def _places() -> tuple[str, ...]:
    """Variables that say where the packs are."""
    from cmsis_packs.cache import ROOT, SHARED_ROOTS, TOOLBOX_ROOT

    return (ROOT, TOOLBOX_ROOT, SHARED_ROOTS, "XDG_CACHE_HOME", "LOCALAPPDATA", "HOME")


def _code() -> str:
    """Digest of what decides a device's files."""
    packs = os.path.join(_ROOT, "cmsis_packs")
    names = sorted(f"../cmsis_packs/{name}" for name in os.listdir(packs) if name.endswith((".py", ".json", ".j2")))
    return content("device_files.py", "board_from_pack.py", "boards.py", "target.py", "project/linker.py", *names)


def _node_of(path: str, folder: Node, make):
    """A folder or file of a pack, or of the project's copies."""
    return folder.Dir(path.partition("@RTE@/")[2]) if path.startswith("@RTE@/") else make(path)


def _config(env, entry: dict[str, str], folder: Node) -> Node:
    """The project's copy of a config file; one that is not there yet is made by the build, others are never touched."""
    from cmsis_packs.config_files import ConfigFile

    node = folder.File(entry["target"].partition("@RTE@/")[2])
    place = node.srcnode().get_abspath()
    if not os.path.exists(place):
        made = env.Command(
            node, [], Action("$TVMSTM32CONFIGFILECOM", "$TVMSTM32CONFIGFILECOMSTR"),
            TVMSTM32SOURCE=[Literal(entry["source"])], TVMSTM32VERSION=entry["version"],
            IMPLICIT_COMMAND_DEPENDENCIES=0,
        )  # fmt: skip
        # One project's copy is no other's.
        env.NoCache(made)
        env.Precious(made)
        env.NoClean(made)
        return made[0]
    config = ConfigFile(Path(entry["source"]), Path(place), entry["version"], entry["pack"])
    if config.is_outdated():
        shown = os.path.relpath(place)
        print(
            f"{entry['pack']} {entry['version']} has another {shown} than the one yours was copied from:\n"
            f"{config.difference().replace(Path(place).as_posix(), shown)}"
            f"When yours has what you want of it: tvm-stm32 packs merged {shlex.quote(shown)} "
            f"--source {shlex.quote(entry['source'])} --version {entry['version']}"
        )
    return node


def _hide_places(env) -> None:
    """Components are not compiled again when only their pack's version, and so the folder, is another."""
    for command in ("CCCOM", "CXXCOM", "ASPPCOM", "ASCOM"):
        if command in env:
            env[command] = str(env[command]).replace("$SOURCES", "$( $SOURCES $)")


def generate(env) -> None:
    """Add the builder to an environment."""
    if "TVMSTM32" not in env:
        env.Tool("stm32_model")
    if "TVMSTM32LDCOM" not in env:
        env.Tool("stm32_firmware")
    env.SetDefault(
        TVMSTM32DEVICECOM="$TVMSTM32 device-files $_TVMSTM32DEVICEFLAGS "
        "$( --lock $TVMSTM32LOCK --compiler $_TVMSTM32COMPILER -o ${TARGET.dir} $)",
        TVMSTM32BOARDCOM="$TVMSTM32 board-files $( --board $TVMSTM32BOARD -o ${TARGET.dir} $)",
        TVMSTM32DEVICECOMSTR="",
        TVMSTM32CONFIGFILECOM="$TVMSTM32 config-file $( $TVMSTM32SOURCE $) --version $TVMSTM32VERSION $( -o $TARGET $)",
        TVMSTM32CONFIGFILECOMSTR="",
    )
    env.AddMethod(cmsis_device, "CmsisDevice")


def exists(_env) -> bool:
    """Packs are looked for when a device is asked for."""
    return True
