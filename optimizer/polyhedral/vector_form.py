"""Which statements can be computed for several iterations at once, by what stands in their bodies."""

from __future__ import annotations

import ast

from optimizer.polyhedral.nest import Nest, Statement

VECTOR_TYPES = frozenset({"float64", "float32", "int64", "int32"})
"""What the elements of vectors can be."""
VECTOR_OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.Div)
VECTOR_FUNCTIONS = {
    **{"min": "minimum", "max": "maximum", "abs": "abs", "np.abs": "abs", "np.absolute": "abs"},
    **{"np.minimum": "minimum_or_nan", "np.maximum": "maximum_or_nan"},
    **{f"{module}.{name}": name for module in ("math", "np") for name in ("sqrt", "exp", "log", "tanh")},
}
"""As kernels call them -> the operation on vectors."""
ROUNDED_ANEW = frozenset({"exp", "log", "tanh"})
"""Of those operations, the ones that may round to another neighbour of the true value than the library's function."""
LARGEST_POWER = 4
"""Of the whole exponents that are written out as multiplications, as compilers do it too."""


def is_small_power(node: ast.BinOp) -> bool:
    """Whether it is a square or the like."""
    match node:
        case ast.BinOp(op=ast.Pow(), right=ast.Constant(value=int() as exponent)):
            return not isinstance(exponent, bool) and 2 <= exponent <= LARGEST_POWER
        case _:
            return False


def obstacle(nest: Nest, statement: Statement) -> str:
    """Why no loop around a statement can be vectorized; empty when its body does not say.

    What a body computes without any array and written scalar is the same for all lanes, and may be anything.
    """
    if statement.opaque:
        return f"{statement.name} is one step whose loops and subscripts data decide"
    touched = {access.array for access in statement.accesses}
    dtypes = {array.name: array.dtype for array in nest.arrays if array.name in touched}
    names = {node.id for node in ast.walk(ast.parse(statement.body)) if isinstance(node, ast.Name)}
    dtypes |= {argument.name: argument.dtype for argument in nest.arguments if argument.name in names}
    for name, dtype in dtypes.items():
        if dtype not in VECTOR_TYPES:
            return f"{statement.name} uses {name}, which is of type {dtype}"
    redefined = redefined_names(nest)

    def found(node: ast.AST) -> str:
        match node:
            case ast.Subscript():
                return ""
            case ast.BinOp(op=operator) if not isinstance(operator, VECTOR_OPERATORS) and _reads(node, touched):
                if not is_small_power(node):
                    return ast.unparse(node)
            case ast.AugAssign(op=operator) if not isinstance(operator, VECTOR_OPERATORS):
                return ast.unparse(node)
            case ast.Call(func=function) if _reads(node, touched):
                name = ast.unparse(function)
                if name not in VECTOR_FUNCTIONS or name in redefined:
                    return ast.unparse(node)
            case ast.Constant(value=bool()):
                return ast.unparse(node)
            case _:
                pass
        return next(filter(None, map(found, ast.iter_child_nodes(node))), "")

    culprit = found(ast.parse(statement.body))
    return f"`{culprit}` in {statement.name} has no vector form" if culprit else ""


def _reads(node: ast.AST, arrays: set[str]) -> bool:
    return any(isinstance(inner, ast.Name) and inner.id in arrays for inner in ast.walk(node))


def redefined_names(nest: Nest) -> set[str]:
    """Names of functions that the source's own module gives another meaning."""
    found: set[str] = set()
    for node in ast.parse(nest.preamble).body:
        match node:
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                usual = {"np": "numpy", "math": "math"}
                for alias in aliases:
                    name = alias.asname or alias.name
                    if usual.get(name) != alias.name:
                        found |= {name, *(function for function in VECTOR_FUNCTIONS if function.startswith(f"{name}."))}
            case _:
                pass
    return found
