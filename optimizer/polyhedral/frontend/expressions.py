"""Right-hand sides: what a kernel may compute, and which elements and scalars it reads for that."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass, field
from difflib import get_close_matches

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend.affine import Affine, Condition, NotAffine, affine, condition, expression_of
from optimizer.polyhedral.frontend.functions import (
    CASTS,
    NAMED_NUMBERS,
    SCALAR_FUNCTIONS,
    Impure,
    check_pure,
    is_number,
)
from optimizer.polyhedral.frontend.scope import Scope
from optimizer.polyhedral.nest import Access

_OUTSIDE_HINT = "use it inside its loop, or keep its value in a variable of another name"
_AFFINE_HINT = "use sums of loop variables, sizes and whole numbers, also with `// 2`, `% 2`, `min` and `max`"


@dataclass(slots=True)
class Reading:
    """What was read on the way."""

    accesses: list[Access] = field(default_factory=list[Access])
    scalars: dict[str, ast.Name] = field(default_factory=dict[str, ast.Name])
    """Scalar variables, with the first place that reads each."""

    def add(self, access: Access) -> None:
        if access not in self.accesses:
            self.accesses.append(access)


class ExpressionReader:
    """Checks expressions, notes what they read, and rewrites them over unique names."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def error(self, node: ast.AST, message: str, hint: str = "") -> SourceError:
        return self.scope.module.source.error(node, message, hint)

    def affine(self, node: ast.expr, what: str) -> Affine:
        """The affine expression; `what` it is begins the message if it is none ("this subscript")."""
        try:
            value = affine(node, self.scope.lookup)
        except NotAffine as problem:
            message = f"{what} is not affine: {problem.reason}"
            source, hint = self.scope.module.source, self._hint(problem.node)
            raise source.error(problem.node, message, hint, depends_on_data=True) from None
        self.scope.used |= value.names
        return value

    def _hint(self, node: ast.expr) -> str:
        match node:
            case ast.Subscript():
                return "gather the elements into an array of their own before the kernel is called"
            case ast.Name(id=name) if name in self.scope.names.loops:
                return _OUTSIDE_HINT
            case _:
                return _AFFINE_HINT

    def condition(self, node: ast.expr) -> Condition | None:
        """The affine condition; None when it is none."""
        try:
            found = condition(node, self.scope.lookup)
        except NotAffine:
            return None
        self.scope.used |= found.names
        return found

    def value(self, node: ast.expr, reading: Reading) -> ast.expr:
        """The expression rewritten.

        Raises:
            SourceError: at the first part that is not supported.
        """
        if (extent := self.scope.extent(node)) is not None:
            self.scope.used |= extent.names
            return expression_of(extent)
        match node:
            case ast.Constant(value=bool() | int() | float()):
                return node
            case ast.Name():
                return self._name(node, reading)
            case ast.Subscript():
                element, access = self.element(node, is_write=False)
                reading.add(access)
                return element
            case ast.Attribute():
                if self.scope.module.resolve(node) not in NAMED_NUMBERS:
                    raise self.error(
                        node, f"attribute `{ast.unparse(node)}` is not supported", "pass it as an argument"
                    )
                return node
            case ast.BinOp(left=left, op=ast.MatMult()):
                hint = "write the product as loops over the elements"
                raise self.error(node, "`@` works on whole arrays, which is not supported", hint)
            case ast.BinOp(left=left, op=operator, right=right):
                return ast.BinOp(self.value(left, reading), operator, self.value(right, reading))
            case ast.UnaryOp(op=operator, operand=operand):
                return ast.UnaryOp(operator, self.value(operand, reading))
            case ast.BoolOp(op=operator, values=values):
                return ast.BoolOp(operator, [self.test(value, reading) for value in values])
            case ast.Compare(left=left, ops=operators, comparators=comparators):
                if any(isinstance(operator, ast.Is | ast.IsNot | ast.In | ast.NotIn) for operator in operators):
                    raise self.error(node, "`is` and `in` are not supported", "compare numbers with `==`, `<`, ...")
                first = self.value(left, reading)
                return ast.Compare(first, operators, [self.value(side, reading) for side in comparators])
            case ast.IfExp(test=test, body=body, orelse=orelse):
                tested = self.test(test, reading)
                return ast.IfExp(tested, self.value(body, reading), self.value(orelse, reading))
            case ast.Call():
                return self._call(node, reading)
            case _:
                raise self.error(
                    node, f"`{ast.unparse(node)}` is not supported in a kernel", "compute with numbers only"
                )

    def test(self, node: ast.expr, reading: Reading) -> ast.expr:
        """A part that decides what is evaluated; an affine one mentions loops and parameters only, so that the proof
        that subscripts stay inside their arrays can use it."""
        return self.value(node, reading) if self.condition(node) is None else self.scope.rewritten(node)

    def element(self, node: ast.Subscript, *, is_write: bool) -> tuple[ast.Subscript, Access]:
        """One element of an array, with the subscripts rewritten; a constant negative one counts from the end."""
        base, subscripts = _flattened(node)
        if not isinstance(base, ast.Name):
            raise self.error(node, f"`{ast.unparse(node)}` is not an element of an array", "subscript arrays only")
        info = self.scope.arrays.get(base.id)
        if info is None:
            message = f"`{base.id}` is not an array that is known here{_nearest(base.id, self.scope.arrays)}"
            raise self.error(base, message, "arrays are arguments, or made by `np.zeros` and its like")
        for subscript in subscripts:
            if isinstance(subscript, ast.Slice) or _is_ellipsis(subscript):
                place = subscript if hasattr(subscript, "lineno") else node
                hint = "write a loop for each slice, with its loop variable as the subscript"
                raise self.error(place, f"`{ast.unparse(node)}` is a slice, which is not supported", hint)
        if len(subscripts) != len(info.extents):
            message = (
                f"`{ast.unparse(node)}` has {len(subscripts)} of the {len(info.extents)} subscripts of `{base.id}`"
            )
            raise self.error(node, message, "write one subscript for each dimension: rows as a whole are not supported")
        found = [self.subscript(subscript, extent) for subscript, extent in zip(subscripts, info.extents, strict=True)]
        nodes = [rewritten for rewritten, _ in found]
        index = nodes[0] if len(nodes) == 1 else ast.Tuple(nodes, ast.Load())
        context = ast.Store() if is_write else ast.Load()
        access = Access(base.id, tuple(text for _, text in found), is_write)
        return ast.Subscript(ast.Name(base.id, ast.Load()), index, context), access

    def subscript(self, node: ast.expr, extent: Affine) -> tuple[ast.expr, str]:
        """A subscript rewritten, and what it is in an access."""
        value = self.affine(node, "this subscript")
        if value.is_constant and value.constant < 0:
            value = extent + value
            self.scope.used |= value.names
            return expression_of(value), str(value)
        return self.scope.rewritten(node), str(value)

    def _name(self, node: ast.Name, reading: Reading) -> ast.expr:
        name, scope = node.id, self.scope
        if name in scope.generated:
            self.scope.used.add(name)
            return node
        if name in scope.loops:
            return ast.Name(scope.loops[name], ast.Load())
        if name in scope.bindings and scope.bindings[name].is_inlined:
            return scope.bindings[name].node
        if name in scope.prologue:
            return node
        if name in scope.arrays:
            hint = f"write a loop over its elements: `{name}[{', '.join('ijklmn'[: len(scope.arrays[name].extents)])}]`"
            raise self.error(node, f"`{name}` stands for the whole array here, which is not supported", hint)
        if name in scope.names.loops:
            raise self.error(node, f"loop variable `{name}` has no value outside its loop", _OUTSIDE_HINT)
        if name in scope.names.assigned:
            reading.scalars.setdefault(name, node)
            reading.add(Access(name, (), is_write=False))
            return node
        if name in scope.arguments:
            return node
        if name in scope.module.constants:
            if not is_number(scope.module, node):
                message = f"`{name}` is not a number that is fixed in this module"
                raise self.error(node, message, "make it an argument of the kernel")
            return node
        if scope.module.resolve(node) in NAMED_NUMBERS:
            return node
        known = [*scope.arguments, *scope.arrays, *scope.names.assigned, *scope.module.constants]
        raise self.error(node, f"`{name}` is not defined{_nearest(name, known)}", "make it an argument of the kernel")

    def _call(self, node: ast.Call, reading: Reading) -> ast.expr:
        module = self.scope.module
        name = module.resolve(node.func)
        shown = ast.unparse(node.func)
        if node.keywords or any(isinstance(argument, ast.Starred) for argument in node.args):
            raise self.error(node, f"`{shown}` is called with keywords or `*`", "pass plain arguments")
        if name == self.scope.function:
            raise self.error(node, f"`{shown}` calls itself: recursion is not supported", "write loops instead")
        if name in module.functions:
            try:
                check_pure(module, module.functions[name])
            except Impure as problem:
                line = getattr(problem.node, "lineno", node.lineno)
                message = f"`{shown}` is not a pure function of numbers: {problem.reason} (line {line})"
                raise self.error(
                    node, message, "only functions that compute a number from numbers can be called"
                ) from None
        elif name not in SCALAR_FUNCTIONS and name not in CASTS:
            if name in {"sum", "any", "all"}:
                raise self.error(node, f"`{shown}` of Python is not supported in a kernel", f"use `np.{name}`")
            if name.startswith(("numpy.random.", "random.")):
                hint = "pass random numbers in an array"
                raise self.error(node, f"`{shown}` gives another number each time, which is not supported", hint)
            accepted = get_close_matches(name, SCALAR_FUNCTIONS, 1, 0.8)
            hint = f"did you mean `{accepted[0]}`?" if accepted else "use functions of math, or NumPy's for numbers"
            raise self.error(node, f"`{shown}` cannot be called in a kernel", hint)
        if name in {"min", "max"} and len(node.args) < 2:
            message = f"`{name}` of one argument works on whole arrays, which is not supported"
            raise self.error(node, message, f"use `np.{name}`")
        return ast.Call(node.func, [self.value(argument, reading) for argument in node.args], [])


def _flattened(node: ast.Subscript) -> tuple[ast.expr, list[ast.expr]]:
    """The array and all subscripts of `A[i, j]` or `A[i][j]`."""
    own = list(node.slice.elts) if isinstance(node.slice, ast.Tuple) else [node.slice]
    if isinstance(node.value, ast.Subscript) and not isinstance(node.value.value, ast.Attribute):
        base, outer = _flattened(node.value)
        return base, [*outer, *own]
    return node.value, own


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and (node.value is Ellipsis or node.value is None)


def _nearest(name: str, known: Iterable[str]) -> str:
    close = get_close_matches(name, list(known), 1)
    return f" (did you mean `{close[0]}`?)" if close else ""
