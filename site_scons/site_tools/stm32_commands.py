"""SCons tool ``stm32_commands``: aliases that show a network's report and flash a board. ``stm32_model`` loads it.

    env.ModelReport("report", network, HTML="build/kws.html")
    env.FlashFirmware("flash", image, BOARD="nucleo-f446re")

``ModelReport(alias, networks)`` prints the reports of networks: what ``TvmModel`` returned, or model files, whose
network is that of the programs they are sources of. ``HTML`` also writes the page of a single one, when it has changed.

``FlashFirmware(alias, image, BOARD=...)`` writes an ELF image, of ``Firmware`` or any ``Program``, into the flash of a
board with the flashing program that is installed. ``TOOL`` chooses one, ``SERIAL`` one of several probes,
``SEMIHOSTING=True`` accepts an image that needs a debugger.

Variables: TVMSTM32FLASHCOM, TVMSTM32PAGECOM and the same with STR, TVMSTM32REPORTCOMSTR.
"""

from __future__ import annotations

import sys

from SCons.Node import Node, NodeList
from SCons.Script import Action, Scanner
from SCons.Util import is_String
from stm32_model import external_data
from stm32_nodes import BoardUse, Network, builder_method, generator, identity
from stm32_sources import SUFFIXES, source_network

from tvm_stm32.errors import Error


def _show(target, source, env) -> None:  # noqa: ARG001 - names SCons calls it by
    """Print text files."""
    for node in source:
        if node.name.endswith("_report.txt"):
            sys.stdout.write(node.get_text_contents())


def _networks(env, given) -> list[Network]:
    if isinstance(given, Network):
        return [given]
    if isinstance(given, (list, tuple)):
        return [network for item in given for network in _networks(env, item)]
    name = env.subst(given) if is_String(given) else given.name if isinstance(given, Node) else ""
    if not name.endswith(SUFFIXES):
        raise Error(f"ModelReport: '{given}' is no network", hint="what TvmModel returned, or a model file")
    return [source_network(env, given)]


@builder_method
def model_report(env, alias, networks, HTML=None, **overrides) -> NodeList:
    """The ``ModelReport`` method."""
    derived = env.Override(overrides)
    known = _networks(derived, networks)
    if not known:
        raise Error(f"ModelReport: there is no network for '{alias}'", hint="what TvmModel returned, or a model file")
    if HTML and len(known) != 1:
        raise Error(f"ModelReport: HTML is the page of one network, and '{alias}' has {len(known)}")
    sources = [network.report_text for network in known]
    sources += _page(derived, HTML, known[0]) if HTML else []
    node = derived.Alias(alias, sources, Action(_show, "$TVMSTM32REPORTCOMSTR"))
    derived.AlwaysBuild(node)
    return node


def _page(env, target, network: Network) -> NodeList:
    """The page of a network, made with the options of its compile."""
    model = network[0].sources
    flags = list(network.flags)
    if "--c-api" in flags:
        # What applications see is no part of the page.
        del flags[flags.index("--c-api") : flags.index("--c-api") + 2]
    node = env.Command(
        env.Flatten([target])[0],
        model,
        Action("$TVMSTM32PAGECOM", "$TVMSTM32PAGECOMSTR"),
        source_scanner=Scanner(external_data, name="onnx external data of a page"),
        **{
            **network.overrides,
            "_TVMSTM32FLAGS": flags,
            "TVMSTM32NAME": network.name,
            "IMPLICIT_COMMAND_DEPENDENCIES": 0,
        },
    )
    # The report says whatever else the network is made from.
    env.Depends(node, [network.report, identity(model=model[0].name, **generator(env))])
    return node


@builder_method
def flash_firmware(
    env, alias, image, BOARD=None, TOOL="", SERIAL="", SEMIHOSTING=False, FLAGS=(), **overrides
) -> NodeList:
    """The ``FlashFirmware`` method."""
    if not BOARD:
        raise Error(f"FlashFirmware: '{alias}' needs a BOARD", hint="tvm-stm32 boards lists them")
    board = BoardUse.of(env, BOARD)
    nodes = env.arg2nodes(env.Flatten([image]), env.fs.File)
    if len(nodes) != 1:
        raise Error(f"FlashFirmware: {len(nodes)} images for '{alias}'", hint="one ELF file")
    flags = [word for option, value in (("--tool", TOOL), ("--serial", SERIAL)) if value for word in (option, value)]
    flags += ["--semihosting"] if SEMIHOSTING else []
    derived = env.Override({"TVMSTM32BOARD": board.argument, "_TVMSTM32FLASHFLAGS": [*flags, *FLAGS], **overrides})
    node = derived.Alias(alias, nodes, Action("$TVMSTM32FLASHCOM", "$TVMSTM32FLASHCOMSTR"))
    derived.Depends(node, board.node)
    derived.AlwaysBuild(node)
    return node


def generate(env) -> None:
    """Add the methods to an environment."""
    env.SetDefault(
        TVMSTM32REPORTCOMSTR="Report: $SOURCES",
        TVMSTM32PAGECOM="$TVMSTM32 inspect $( $SOURCE $) --name $TVMSTM32NAME $_TVMSTM32FLAGS $TVMSTM32FLAGS "
        "$( --html $TARGET $)",
        TVMSTM32PAGECOMSTR="",
        TVMSTM32FLASHCOM="$TVMSTM32 flash $SOURCE --board $TVMSTM32BOARD $_TVMSTM32FLASHFLAGS",
        TVMSTM32FLASHCOMSTR="",
    )
    env.AddMethod(model_report, "ModelReport")
    env.AddMethod(flash_firmware, "FlashFirmware")


def exists(_env) -> bool:
    """The generator comes with this file."""
    return True
