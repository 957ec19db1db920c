"""Conditions, components and bundles of a PDSC file."""

from __future__ import annotations

from dataclasses import replace

from tvm_stm32.errors import quoted

from .model import Component, Condition, File, Filter, Rule
from .safe_xml import Element
from .values import flag, inside_pack, pack_path, word

_RULES: dict[str, Rule] = {"require": "require", "accept": "accept", "deny": "deny"}
_ATTRS = ("", "config", "template", "copy", "interface")
_OF_BUNDLE = ("Cbundle", "Cclass", "Cvendor", "Cversion")
_LONGEST_TEXT = 1 << 16


def read_conditions(root: Element) -> dict[str, Condition]:
    """The conditions of a <package> by id. Two of one id raise."""
    conditions: dict[str, Condition] = {}
    for element in root.each("conditions", "condition"):
        name = word(element, "id", required=True)
        if name in conditions:
            raise element.problem("a second condition of this id")
        filters = tuple(_filter(child, _RULES[child.tag]) for child in element.children if child.tag in _RULES)
        conditions[name] = Condition(name, filters)
    return conditions


def read_components(root: Element, vendor: str) -> tuple[Component, ...]:
    """The components of a <package> in the file's order, those of bundles with what they inherit.

    ``vendor`` is theirs when they name no other.
    """
    components: list[Component] = []
    for parent in root.each("components"):
        for element in parent.children:
            if element.tag == "component":
                components.append(_component(element, vendor))
            elif element.tag == "bundle":
                word(element, "Cbundle", required=True)
                shared = {name: text for name, text in element.attributes.items() if name in _OF_BUNDLE}
                components += [_component(child, vendor, shared) for child in element.each("component")]
    return tuple(components)


def read_apis(root: Element, vendor: str) -> tuple[Component, ...]:
    """The interfaces of a <package>: headers that come with every component of their class and group."""
    apis = (_component(element, vendor) for element in root.each("apis", "api"))
    return tuple(replace(api, version=api.api_version) for api in apis)


def _filter(element: Element, rule: Rule) -> Filter:
    attributes = tuple((name, word(element, name)) for name in sorted(element.attributes) if name != "condition")
    return Filter(rule, attributes, word(element, "condition"))


def _component(element: Element, vendor: str, shared: dict[str, str] | None = None) -> Component:
    own = Element(element.tag, {**(shared or {}), **element.attributes}, element.file, element.line)
    text = next((child.text for child in element.each("RTE_Components_h")), "")
    text = "\n".join(line.strip() for line in text.splitlines())
    if len(text) > _LONGEST_TEXT:
        raise element.problem(f"<RTE_Components_h> has more than {_LONGEST_TEXT:,} characters")
    return Component(
        vendor=word(own, "Cvendor") or vendor,
        class_=word(own, "Cclass", required=True),
        group=word(own, "Cgroup", required=True),
        sub=word(own, "Csub"),
        variant=word(own, "Cvariant"),
        bundle=word(own, "Cbundle"),
        version=word(own, "Cversion"),
        api_version=word(own, "Capiversion"),
        condition=word(own, "condition"),
        is_default_variant=flag(own, "isDefaultVariant"),
        rte_components_h=text,
        files=tuple(file for child in element.each("files", "file") if (file := _file(child)) is not None),
    )


def _file(element: Element) -> File | None:
    """A file, or None for documentation on the web."""
    category = word(element, "category", required=True)
    name = word(element, "name", required=True)
    if category == "doc" and "://" in name:
        return None
    attr = word(element, "attr")
    if attr not in _ATTRS:
        raise element.problem(f"attr={quoted(attr)} is unknown", hint="one of: " + ", ".join(_ATTRS[1:]))
    return File(
        path=inside_pack(element, "name", name),
        category=category,
        attr=attr,
        condition=word(element, "condition"),
        version=word(element, "version"),
        select=word(element, "select"),
        language=word(element, "language"),
        scope=word(element, "scope"),
        include_folder=pack_path(element, "path"),
    )
