"""Documents the Python SDK from its sources: the exports of ``berth`` with their docstrings.

Describes the blocking client; ``AsyncBerth`` has the same methods. Imports no module of the
SDK, so that it needs only Python."""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[2] / "sdk/python/berth"
HEAD = """# Python SDK

Made by `npm run reference` from the sources of `berth-sdk`. [The guide](../guides/python.md) and [the pages by task](../guides/README.md) show how it is used.

`AsyncBerth`, `AsyncWorkspace`, `AsyncCommand` and `AsyncTerminal` have the same methods for `asyncio`: `await` what returns once, `async for` what iterates. What a method raises is a `BerthError`: by class, `code` and `reason`, which [errors](errors.md) lists with what is retryable. Answers are dictionaries with the fields of [schemas](schemas.md); `types.X` names them for editors. `wait_seconds` is how long the caller waits, with all repeats. Times that end with `_ms` are in milliseconds, with `_seconds` in seconds; offsets and sizes are in bytes.
"""
#: In this order; further exported names follow.
FIRST = ["Berth", "Workspace", "Command", "Terminal"]


def main() -> None:
    exported = where_exported()
    found = {name: definition for module in modules() for name, definition in classes_of(module).items()}
    names = [*FIRST, *(name for name in exported if name not in FIRST and not name.startswith("Async"))]
    errors = [name for name in names if name.endswith("Error")]
    lines = [HEAD, "## Classes\n"]
    for name in [each for each in names if each not in errors]:
        lines += section(name, found[name], 3)
        lines += nouns(name, found[name], found)
    lines += section("List", found["List"], 3)
    lines.append("## Errors\n")
    for name in errors:
        lines += section(name, found[name], 3)
    sys.stdout.write(re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).rstrip() + "\n")


def nouns(name: str, definition: ast.ClassDef, found: dict[str, ast.ClassDef]) -> list[str]:
    lines: list[str] = []
    for attribute, noun in nouns_of(definition, found):
        lines += [*section(f"{name}.{attribute}", noun, 4), *nouns(f"{name}.{attribute}", noun, found)]
    return lines


def where_exported() -> list[str]:
    """Names in the order of the package's own table."""
    for node in ast.parse((PACKAGE / "__init__.py").read_text()).body:
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and node.targets[0].id == "_WHERE":
            return list(ast.literal_eval(node.value))
    raise LookupError("berth/__init__.py has no table _WHERE")


def modules() -> list[Path]:
    return [*sorted((PACKAGE / "_sync").glob("*.py")), PACKAGE / "_results.py", PACKAGE / "errors.py"]


def classes_of(module: Path) -> dict[str, ast.ClassDef]:
    return {node.name: node for node in ast.parse(module.read_text()).body if isinstance(node, ast.ClassDef)}


def section(name: str, definition: ast.ClassDef, level: int) -> list[str]:
    lines = [f"{'#' * level} {name}\n", note_of(definition), ""]
    bases = [ast.unparse(base) for base in definition.bases if ast.unparse(base).endswith("Error")]
    if bases:
        lines += [f"A `{bases[0]}`.", ""]
    lines += [*fields_of(definition), *attributes_of(definition)]
    for member in definition.body:
        if isinstance(member, ast.FunctionDef) and is_public(member, definition):
            lines.append(bullet(signature(member, definition), note_of(member)))
    return [*lines, ""]


def fields_of(definition: ast.ClassDef) -> list[str]:
    """Lists a dataclass's fields, each with the comment above it."""
    if not any("dataclass" in ast.unparse(each) for each in definition.decorator_list):
        return []
    lines = []
    for member in definition.body:
        if isinstance(member, ast.AnnAssign) and isinstance(member.target, ast.Name):
            note = comment_above("_results.py", member.lineno)
            lines.append(bullet(f"{member.target.id}: {ast.unparse(member.annotation)}", note))
    return lines


def attributes_of(definition: ast.ClassDef) -> list[str]:
    """Lists an error's attributes, each with the comment above it."""
    made = [each for each in definition.body if isinstance(each, ast.FunctionDef) and each.name == "__init__"]
    if not definition.name.endswith("Error") or not made:
        return []
    parameters = {each.arg: each.annotation for each in [*made[0].args.args, *made[0].args.kwonlyargs]}
    lines = []
    for node in made[0].body:
        target = node.target if isinstance(node, ast.AnnAssign) else node.targets[0] if isinstance(node, ast.Assign) else None
        if not isinstance(target, ast.Attribute):
            continue
        annotation = node.annotation if isinstance(node, ast.AnnAssign) else parameters.get(target.attr)
        name = f"{target.attr}: {ast.unparse(annotation)}" if annotation is not None else target.attr
        lines.append(bullet(name, comment_above("errors.py" if definition.name != "CommandError" else "_results.py", node.lineno)))
    return lines


def comment_above(module: str, line: int) -> str:
    source = (PACKAGE / module).read_text().splitlines()
    said: list[str] = []
    at = line - 2
    while source[at].strip().startswith("#:"):
        said.insert(0, source[at].strip()[2:].strip())
        at -= 1
    return " ".join(said).replace("``", "`")


def nouns_of(definition: ast.ClassDef, found: dict[str, ast.ClassDef]) -> list[tuple[str, ast.ClassDef]]:
    """Finds ``self.files = Files(...)`` in ``__init__`` and returns the attribute and its class."""
    attributes = []
    for node in ast.walk(definition):
        if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.Call) or not isinstance(node.value.func, ast.Name):
            continue
        target, called = node.targets[0], node.value.func.id
        if isinstance(target, ast.Attribute) and not target.attr.startswith("_") and called in found:
            attributes.append((target.attr, found[called]))
    return attributes


def is_public(member: ast.FunctionDef, owner: ast.ClassDef) -> bool:
    # Only `Berth` is constructed by callers.
    return member.name == "__init__" if owner.name == "Berth" and member.name.startswith("_") else not member.name.startswith("_")


def signature(member: ast.FunctionDef, owner: ast.ClassDef) -> str:
    returns = ast.unparse(member.returns) if member.returns else "None"
    if any(isinstance(each, ast.Name) and each.id == "property" for each in member.decorator_list):
        return f"{member.name}: {returns}"
    arguments = ast.unparse(member.args)
    arguments = re.sub(r"^self(, )?", "", arguments)
    # The page explains this common parameter once, at the top.
    arguments = re.sub(r"(, )?\bwait_seconds: float( \| None)?\s*=\s*\w+", "", arguments)
    arguments = re.sub(r"(^|, )\*$", "", arguments).replace("*, **", "**")
    arguments = re.sub(r"(?<=[\w\]])=(?=\S)", " = ", arguments)
    if member.name == "__init__":
        return f"{owner.name}({arguments})"
    return f"{member.name}({arguments}) -> {returns}"


def note_of(node: ast.ClassDef | ast.FunctionDef) -> str:
    return re.sub(r"``", "`", " ".join((ast.get_docstring(node) or "").split()))


def bullet(code: str, note: str) -> str:
    return f"- `{code}`" + (f": {note}" if note else "")


if __name__ == "__main__":
    main()
