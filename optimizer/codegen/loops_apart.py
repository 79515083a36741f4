"""Parallel loops as functions of their own, so that the body of each is compiled as any function is: see `threads`.

    for i in prange(n):                  def kernel_loop(first, last, x):
        x[i] = 0.0                           for i in range(first, last):
                                                 x[i] = 0.0

    is                                   in_threads(kernel_loop, 0, n, (x,))

A variable that is assigned in a parallel loop belongs to one iteration. Where the text is not like that, because a
value is summed up or used afterwards, the function stays as it is.
"""

from __future__ import annotations

import ast
import re
from dataclasses import dataclass, field

from optimizer.codegen.layout import LINE_LENGTH, laid_out
from optimizer.codegen.module_text import free_name
from optimizer.name_flow import NotUnderstoodError, assigned, parallel_loops, read, read_first

IN_THREADS = "in_threads"
"""The function of `threads`."""
FENCE = "fence()"
"""What iterations end with that store past the caches. A thread needs one, after all of its iterations."""


def with_loops_apart(text: str, reserved: frozenset[str] = frozenset()) -> str:
    """The module, or a part of one, with the parallel loops of `njit(parallel=True)` functions apart.

    Numba runs them on threads alone: what else it would have is lost, so this is for generated code, which has nothing.
    What is returned is the text itself, or calls `in_threads`, which is then to be imported. `reserved`: names that are
    not free.
    """
    module = ast.parse(text)
    taken = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)} | reserved
    taken |= {node.name for node in ast.walk(module) if isinstance(node, ast.FunctionDef)}
    taken |= {node.arg for node in ast.walk(module) if isinstance(node, ast.arg)}
    if IN_THREADS in taken:
        return text
    lines = text.splitlines()
    for function in reversed([node for node in module.body if isinstance(node, ast.FunctionDef)]):
        decorators = [lines[node.lineno - 1] for node in function.decorator_list]
        if len(decorators) == 1 and "parallel=True" in decorators[0]:
            decorator = re.sub(r"parallel=True(, )?", "", decorators[0]).removesuffix("()")
            try:
                parts = _Parts(function, lines, taken, decorator)
                lines[function.lineno - 2 : function.end_lineno] = parts.of_function()
            except NotUnderstoodError:
                continue
    return "\n".join([*lines, ""] if text.endswith("\n") else lines)


@dataclass(slots=True)
class _Parts:
    """Takes the loops out of a function."""

    function: ast.FunctionDef
    source: list[str]
    """The lines of the module."""
    taken: set[str]
    """All names of the module."""
    decorator: str
    """Of all functions that are made."""
    made: list[str] = field(default_factory=list[str])
    """The lines of those that loops have become."""

    def of_function(self) -> list[str]:
        """The lines of the function, and before it of its loops; raises NotUnderstoodError."""
        start = self.function.lineno - 1
        rest = self.source[start : self.function.end_lineno]
        loops = list(parallel_loops(self.function.body))
        if not loops:
            raise NotUnderstoodError
        calls = [self._call(loop, after) for loop, after in loops]
        for (loop, _), call in zip(reversed(loops), reversed(calls), strict=True):
            rest[loop.lineno - 1 - start : (loop.end_lineno or 0) - start] = call
        return [*self.made, self.decorator, *rest]

    def _call(self, loop: ast.For, after: frozenset[str]) -> list[str]:
        """What stands for the loop; `after`: names that may be read when it is over."""
        assert isinstance(loop.iter, ast.Call)
        own, target = assigned([loop]), loop.target
        header_end = loop.iter.end_lineno or 0
        is_usual = len(loop.iter.args) in (1, 2) and not loop.iter.keywords and loop.body[0].lineno > header_end
        if (
            any(map(_leaves, loop.body))
            or not is_usual
            or not isinstance(target, ast.Name)
            or own & (after | (read_first(loop.body) - {target.id}))
        ):
            raise NotUnderstoodError
        of_function = assigned([self.function]) | {
            node.arg for node in ast.walk(self.function.args) if isinstance(node, ast.arg)
        }
        given = sorted((read(loop.body) & of_function) - own, key=str.lower)
        name = free_name(f"{self.function.name}_loop", self.taken)
        self.taken.add(name)
        first, last = (free_name(end, read([self.function]) | of_function) for end in ("first", "last"))
        indent = " " * loop.col_offset
        body = self.source[header_end : loop.end_lineno]
        inside = body[:-1] if body[-1].strip() == FENCE and len(body) > 1 else body
        self.made += [
            self.decorator,
            *_head(name, [first, last, *given]),
            f"    for {target.id} in range({first}, {last}):",
            *("    " + re.sub(r"\bprange\b", "range", line.removeprefix(indent)) for line in inside),
            *(f"    {FENCE}" for _ in body[len(inside) :]),
            "",
            "",
        ]
        bounds = [ast.unparse(bound) for bound in loop.iter.args]
        start, stop = bounds if len(bounds) == 2 else ("0", *bounds)
        arguments = f"({', '.join(given)}{',' if len(given) == 1 else ''})"
        return laid_out(f"{IN_THREADS}({name}, {start}, {stop}, {arguments})", indent)


def _leaves(node: ast.stmt) -> bool:
    """Whether a statement may end an iteration of the loop around it."""
    match node:
        case ast.For() | ast.While():
            return any(isinstance(part, ast.Return) for part in ast.walk(node))
        case ast.If(body=body, orelse=orelse):
            return any(map(_leaves, [*body, *orelse]))
        case _:
            return isinstance(node, ast.Return | ast.Break | ast.Continue)


def _head(name: str, arguments: list[str]) -> list[str]:
    """The first lines of a function."""
    inside = ", ".join(arguments)
    if len(f"def {name}({inside}):") <= LINE_LENGTH:
        return [f"def {name}({inside}):"]
    if len(f"    {inside}") <= LINE_LENGTH:
        return [f"def {name}(", f"    {inside}", "):"]
    return [f"def {name}(", *(f"    {argument}," for argument in arguments), "):"]
