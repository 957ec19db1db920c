"""A device and a choice of components become the files of a pack that a build takes."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tvm_stm32.errors import PackError, quoted

from .conditions import Environment, Evaluator, Security, component_matches
from .model import Component, Device, File, Pack
from .versions import satisfies, version_key

_GROUP_OF = {
    "source": "sources",
    "sourceC": "sources",
    "sourceCpp": "sources",
    "sourceAsm": "sources",
    "library": "libraries",
    "object": "libraries",
    "linkerScript": "linker_scripts",
    "preIncludeGlobal": "pre_includes",
    "preIncludeLocal": "pre_includes",
}
_GROUPS = ("sources", "config_files", "libraries", "linker_scripts", "pre_includes")
_MOST_TRIED = 8
_ID = re.compile(
    r"(?:(?P<vendor>[^:&@]+)::)?(?P<class_>[^:&@]+)(?:&(?P<bundle>[^:&@]+))?"
    r":(?P<group>[^:&@]+)(?::(?P<sub>[^:&@]+))?(?:&(?P<variant>[^:&@]+))?(?:@(?P<version>(?:>=|\^|~)?[0-9][^:&@]*))?"
)
_LONGEST_ID = 1000


@dataclass(frozen=True)
class Resolution:
    """What a build takes from a pack; paths are relative to the pack's folder.

    ``sources`` are compiled where they lie, ``include_folders`` go to the compiler in this order. ``config_files`` are
    copied into the project once and belong to the user from then on: those that are sources are compiled there, those
    that are headers need the copy's folder in front. ``rte_components_h`` are texts for RTE_Components.h.
    """

    components: tuple[Component, ...] = ()
    sources: tuple[File, ...] = ()
    include_folders: tuple[str, ...] = ()
    config_files: tuple[File, ...] = ()
    libraries: tuple[File, ...] = ()
    linker_scripts: tuple[File, ...] = ()
    pre_includes: tuple[File, ...] = ()
    rte_components_h: tuple[str, ...] = ()


def resolve(
    pack: Pack,
    device: Device,
    components: Sequence[str],
    *,
    processor: str = "",
    compiler: str = "GCC",
    security: Security = "TZ-disabled",
    others: Sequence[Component] = (),
    known: Sequence[Pack] = (),
) -> Resolution:
    """The files of ``pack`` for ``components`` (``Vendor::Class:Group:Sub&Variant@version``) on ``device``.

    ``others`` are components chosen from other packs: conditions see them, their files are not listed, but those of
    interfaces they implement are; ``known`` are packs that hints may name components of. ``processor``,
    ``compiler`` and ``security`` are as in :meth:`Environment.of`. Raises :class:`PackError` that names the component,
    and the conditions or components it lacks.
    """
    environment = Environment.of(device, processor=processor, compiler=compiler, security=security)
    chosen = tuple(dict.fromkeys(select(pack, environment, text) for text in components))
    _check_exclusive(chosen)
    selected = (*chosen, *others)
    for component in chosen:
        evaluator = Evaluator(pack.conditions, environment, selected)
        reasons = _unmet(evaluator, component.condition, component)
        if reasons:
            raise PackError(
                f"component {quoted(str(component))} lacks something on device {quoted(device.name)}",
                why="; ".join(reasons),
                hint=_suggestion(
                    [pack, *(other for other in known if other is not pack)], environment, evaluator.wishes
                ),
            )
    evaluator = Evaluator(pack.conditions, environment, selected)
    apis = [api for component in selected for api in _apis(pack, component)]
    files = [(file, owner) for owner in (*apis, *chosen) for file in owner.files]
    return _sorted(chosen, [file for file, owner in files if not _unmet(evaluator, file.condition, owner)])


def select(pack: Pack, environment: Environment, text: str) -> Component:
    """The one component of ``pack`` that ``text`` names and the device allows.

    Of several variants it is the default one, of several versions the newest.
    """
    found = _ID.fullmatch(text) if len(text) <= _LONGEST_ID else None
    if found is None:
        raise PackError(
            f"{quoted(text)} names no component", hint="such as ARM::CMSIS:CORE or ST::Device:HAL:GPIO@1.2.0"
        )
    named = [component for component in pack.components if _is_named(component, found)]
    if not named:
        raise PackError(
            f"{pack} has no component {quoted(text)}",
            hint=_one_of([str(other) for other in pack.components if other.class_ == found["class_"]]),
        )
    evaluator = Evaluator(pack.conditions, environment, None)
    unmet = {component: _unmet(evaluator, component.condition, component) for component in dict.fromkeys(named)}
    allowed = [component for component, reasons in unmet.items() if not reasons]
    if not allowed:
        raise PackError(
            f"component {quoted(text)} is not for device {quoted(environment.device.name)}",
            why="; ".join(list(dict.fromkeys(reason for reasons in unmet.values() for reason in reasons))[:6]),
        )
    return _best(allowed, found, text)


def _best(allowed: list[Component], found: re.Match[str], text: str) -> Component:
    if not found["sub"]:
        allowed = [component for component in allowed if not component.sub] or allowed
    if not found["variant"]:
        allowed = (
            [component for component in allowed if component.is_default_variant]
            or [component for component in allowed if not component.variant]
            or allowed
        )
    if len({component.identity for component in allowed}) == 1:
        newest = max(version_key(component.version) for component in allowed)
        allowed = [component for component in allowed if version_key(component.version) == newest]
    if len(allowed) > 1:
        raise PackError(f"{quoted(text)} names several components", hint=_one_of([str(other) for other in allowed]))
    return allowed[0]


def _is_named(component: Component, found: re.Match[str]) -> bool:
    return all(
        found[name] is None or found[name] == getattr(component, name)
        for name in ("vendor", "class_", "bundle", "group", "sub", "variant")
    ) and (found["version"] is None or satisfies(component.version, found["version"]))


def _unmet(evaluator: Evaluator, condition: str, component: Component) -> tuple[str, ...]:
    try:
        return evaluator.unmet(condition)
    except PackError as error:
        raise PackError(f"component {quoted(str(component))}: {error.message}", why=error.why) from error


def _check_exclusive(chosen: Sequence[Component]) -> None:
    """Variants, versions and vendors of a component stand in for each other: a build has one of them."""
    known: dict[tuple[str, str, str], Component] = {}
    for component in chosen:
        other = known.setdefault((component.class_, component.group, component.sub), component)
        if other is not component:
            raise PackError(f"components {quoted(str(other))} and {quoted(str(component))} exclude each other")


def _apis(pack: Pack, component: Component) -> list[Component]:
    """The newest interface of this pack that a component implements: none or one."""
    apis = [api for api in pack.apis if (api.class_, api.group) == (component.class_, component.group)]
    return sorted(apis, key=lambda api: version_key(api.version))[-1:]


def _suggestion(packs: Sequence[Pack], environment: Environment, wishes: Sequence[list[tuple[str, str]]]) -> str:
    """Components of packs that fulfil one of ``wishes`` and that the device allows, as a hint."""
    could = []
    for pack in packs:
        alone = Evaluator(pack.conditions, environment, None)
        could += [
            str(component)
            for component in pack.components
            if any(component_matches(component, wish) for wish in wishes[:_MOST_TRIED])
            and not _unmet(alone, component.condition, component)
        ]
    if not could and wishes:
        return "a component of another pack"
    return _one_of(could, "add one of: ")


def _one_of(names: Sequence[str], lead: str = "one of: ") -> str:
    names = list(dict.fromkeys(names))
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return lead + ", ".join(names[:8]) + more if names else ""


def _sorted(chosen: tuple[Component, ...], files: Iterable[File]) -> Resolution:
    """Files by what a build does with them, each once, in the order of the components."""
    groups: dict[str, dict[str, File]] = {name: {} for name in _GROUPS}
    folders: dict[str, None] = {}
    for file in files:
        if file.attr not in ("", "config"):
            continue  # templates and the like are copied on request only
        group = "config_files" if file.attr else _GROUP_OF.get(file.category, "")
        if group:
            groups[group].setdefault(file.path, file)
        elif folder := _include_folder(file):
            folders[folder] = None
    return Resolution(
        components=chosen,
        include_folders=tuple(folders),
        rte_components_h=tuple(component.rte_components_h for component in chosen if component.rte_components_h),
        **{name: tuple(found.values()) for name, found in groups.items()},
    )


def _include_folder(file: File) -> str:
    """The folder a header or folder adds to the compiler's search path, "." for the pack's own, "" for none."""
    if file.category == "include":
        return file.path.rstrip("/")
    if file.category == "header" and file.scope != "hidden":
        return (file.include_folder or posixpath.dirname(file.path)).rstrip("/") or "."
    return ""
