"""A block as portable C: the same operations, one statement each (``ai_blocks.h``)."""

from __future__ import annotations

from .operations import OPERATIONS
from .program import Block, Comment, Constant, Index, Instruction, Item, Loop, Park, Repeat, Unpark, Variable


def c_text(block: Block) -> str:
    """The function ``NAME`` in C."""
    declared: dict[Variable, None] = {}
    indices: dict[str, None] = {}
    _declare(block.body, declared, indices)
    names = [_declaration(parameter) for parameter in block.parameters]
    lines = [f"static void NAME({', '.join(names)})", "{"]
    # Copies that are kept have variables of their own, one for all places they are made.
    by_name = {variable.name: variable for variable in declared if variable not in block.parameters}
    lines += [f"    {_declaration(variable)};" for variable in by_name.values()]
    lines += [f"    int32_t {index};" for index in indices]
    lines.append("")
    kept = {name.removeprefix("kept_") for name in by_name if name.startswith("kept_")}
    _statements(block.body, lines, "    ", kept)
    return "\n".join([*lines, "}"]) + "\n"


def _declaration(variable: Variable) -> str:
    return f"{variable.ctype}{'' if variable.ctype.endswith('*') else ' '}{variable.name}"


def _kept(variable: Variable) -> Variable:
    """The copy of a variable that assembly keeps on the stack."""
    return Variable(f"kept_{variable.name}", variable.ctype)


def _declare(items: list[Item], declared: dict[Variable, None], indices: dict[str, None]) -> None:
    for item in items:
        if isinstance(item, Instruction):
            declared.update(dict.fromkeys(item.writes))
        elif isinstance(item, Constant):
            declared[item.variable] = None
        elif isinstance(item, Unpark):
            declared.update({item.target: None, _kept(item.variable): None})
        elif isinstance(item, Repeat):
            indices[item.index] = None
        if isinstance(item, Loop | Repeat):
            _declare(item.body, declared, indices)


def _statements(items: list[Item], lines: list[str], indent: str, kept: set[str]) -> None:
    for item in items:
        if isinstance(item, Comment):
            lines.append(f"{indent}/* {item.text} */")
        elif isinstance(item, Constant):
            value = "INT32_MIN" if item.value == -(1 << 31) else str(_signed(item.value))
            lines.append(f"{indent}{item.variable.name} = {value};")
        elif isinstance(item, Instruction):
            writes = [variable.name for variable in item.writes]
            reads = [variable.name for variable in item.reads]
            operands = dict(zip("defg", writes, strict=False)) | dict(zip("abc", reads, strict=False))
            text = OPERATIONS[item.operation].c.format(**operands, w=writes, r=reads, i=_constant_text(item.constant))
            lines += [f"{indent}{line}" for line in text.replace(" + 0)", ")").split("\n")]
        elif isinstance(item, Loop):
            lines.append(f"{indent}do {{")
            _statements(item.body, lines, f"{indent}    ", kept)
            lines += [f"{indent}    {item.counter.name}--;", f"{indent}}} while ({item.counter.name} != 0);"]
        elif isinstance(item, Repeat):
            lines.append(f"{indent}for ({item.index} = 0; {item.index} < {item.count}; {item.index}++) {{")
            _statements(item.body, lines, f"{indent}    ", kept)
            lines.append(f"{indent}}}")
        elif isinstance(item, Unpark):
            lines.append(f"{indent}{item.target.name} = kept_{item.variable.name};")
        elif isinstance(item, Park) and item.place.name in kept:
            lines.append(f"{indent}kept_{item.place.name} = {item.variable.name};")


def _signed(value: int) -> int:
    return (value + (1 << 31)) % (1 << 32) - (1 << 31)


def _constant_text(constant: int | Index | None) -> str:
    if not isinstance(constant, Index):
        return str(constant)
    step = f"{constant.step} * {constant.name}" if constant.step != 1 else constant.name
    return f"{constant.start} + {step}" if constant.start else step
