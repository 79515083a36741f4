"""The module texts around a kernel: what its statements need from the file, and the untouched function by itself."""

from __future__ import annotations

import ast
import textwrap
from collections.abc import Iterable

from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.frontend.stencils import is_stencil, read_stencil


def preamble(module: Module, nodes: Iterable[ast.AST], *, with_numba: bool) -> str:
    """Imports, constants and undecorated helper functions of the file that `nodes` use, directly or through each other.

    `with_numba` keeps imports of numba, for a function that still has its `prange`.
    """
    used: set[str] = set()
    pending = [name for node in nodes for name in _names(node)]
    while pending:
        name = pending.pop()
        if name in used:
            continue
        used.add(name)
        if name in module.constants:
            pending += _names(module.constants[name])
        if name in module.functions:
            pending += _names(_needed(module, module.functions[name]))
    imports = [_import(bound, origin) for bound, origin in module.imports.items() if bound in used]
    lines = [line for line in imports if with_numba or "numba" not in line]
    lines += [f"{name} = {ast.unparse(value)}" for name, value in module.constants.items() if name in used]
    functions = [ast.unparse(_needed(module, f)) for name, f in module.functions.items() if name in used]
    return "\n\n\n".join(part for part in ("\n".join(lines), *functions) if part) + ("\n" if lines or functions else "")


def original(module: Module, function: ast.FunctionDef) -> str:
    """A stand-alone module with the function as it is written, without its decorators and annotations."""
    bare = _bare(function)
    arguments = bare.args
    # Called with all arguments in order, which is what keyword-only ones are then, too.
    arguments.args, arguments.kwonlyargs = [*arguments.args, *arguments.kwonlyargs], []
    arguments.defaults += [default for default in arguments.kw_defaults if default is not None]
    arguments.kw_defaults = []
    before = preamble(module, [*bare.body, *arguments.defaults], with_numba=True)
    bare.body = [ast.Pass()]
    header = ast.unparse(bare).partition("\n")[0]
    lines = module.source.text.splitlines()[function.body[0].lineno - 1 : function.end_lineno]
    body = textwrap.indent(textwrap.dedent("\n".join(lines)), "    ")
    return f"{before}\n\n{header}\n{body}\n" if before else f"{header}\n{body}\n"


def _names(node: ast.AST) -> list[str]:
    return [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]


def _needed(module: Module, function: ast.FunctionDef) -> ast.FunctionDef:
    """Without annotations, and without decorators that leave a function what it is."""
    bare = _bare(function)
    if is_stencil(module, function):
        # What Numba finds out by itself is said, for those who run the kernel without Numba.
        reach = ast.parse(repr(read_stencil(module, function).reach), mode="eval").body
        decorator = function.decorator_list[0]
        call = copied(decorator) if isinstance(decorator, ast.Call) else ast.Call(decorator, [], [])
        if not any(word.arg == "neighborhood" for word in call.keywords):
            call.keywords.append(ast.keyword("neighborhood", reach))
        bare.decorator_list = [call]
    return bare


def _bare(function: ast.FunctionDef) -> ast.FunctionDef:
    """Without decorators and annotations."""
    bare = copied(function)
    bare.decorator_list, bare.returns = [], None
    for argument in ast.walk(bare.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return bare


def _import(bound: str, origin: str) -> str:
    owner, _, name = origin.rpartition(".")
    if not owner or origin == bound:
        return f"import {origin}" if origin == bound else f"import {origin} as {bound}"
    return f"from {owner} import {name}" if name == bound else f"from {owner} import {name} as {bound}"
