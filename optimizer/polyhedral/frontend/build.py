"""Puts a nest together from a function's parts."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from optimizer.errors import SourceError
from optimizer.polyhedral.frontend.affine import Condition
from optimizer.polyhedral.frontend.body import FunctionWalker
from optimizer.polyhedral.frontend.bounds import Violation, find_violation, subscripted_arrays, within_bounds
from optimizer.polyhedral.frontend.buffer_swaps import without_swaps
from optimizer.polyhedral.frontend.copying import copied
from optimizer.polyhedral.frontend.drafts import Draft
from optimizer.polyhedral.frontend.expressions import ExpressionReader
from optimizer.polyhedral.frontend.functions import is_transparent
from optimizer.polyhedral.frontend.kept_elements import check_kept
from optimizer.polyhedral.frontend.names import FunctionNames, LoopNames, is_reserved
from optimizer.polyhedral.frontend.original import original, preamble
from optimizer.polyhedral.frontend.own_variables import separate_own_variables
from optimizer.polyhedral.frontend.rebound_arguments import with_own_copies
from optimizer.polyhedral.frontend.recomputed_values import with_values_recomputed
from optimizer.polyhedral.frontend.renaming import with_webs
from optimizer.polyhedral.frontend.scalars import find_webs
from optimizer.polyhedral.frontend.scope import ArrayInfo, Scope
from optimizer.polyhedral.frontend.shapes import Shapes, read_shapes
from optimizer.polyhedral.frontend.signature import ANNOTATE, Signature, read_signature
from optimizer.polyhedral.frontend.size_unification import FreeSizes, with_equal_sizes
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.frontend.spelling import Spelling
from optimizer.polyhedral.frontend.stored_scalars import with_scalars_in_elements
from optimizer.polyhedral.frontend.temporaries import with_temporaries_in_variables
from optimizer.polyhedral.frontend.tuples import without_tuples
from optimizer.polyhedral.nest import Argument, ArgumentKind, Array, Nest, Role, Statement
from optimizer.polyhedral.tree import Node

_BUILT_IN = ("range", "enumerate", "zip", "reversed", "len", "min", "max", "abs")


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read of a function, before its subscripts are looked at."""

    nest: Nest
    drafts: tuple[Draft, ...]
    """What each statement of the nest was made of, in the same order."""

    def place(self, violation: Violation) -> ast.AST:
        """Where in the source a subscript stands that leaves its array."""
        return _place(self.drafts[int(violation.statement.name[1:])], violation)


def build_nest(
    module: Module, function: ast.FunctionDef, examples: Mapping[str, Any] | None, *, by_use: bool = False
) -> Nest:
    """The nest of one function of a module; `by_use`: arguments without a type have the one that their use shows.

    Raises:
        SourceError: at the first thing that is not supported, or that is wrong at every size.
    """
    check_decorators(module, function)
    signature = read_signature(module, function, examples, by_use=by_use)
    try:
        reading = read_function(module, function, signature, examples)
    except SourceError as error:
        raise _with_assumptions(error, signature) from None
    violation = find_violation(reading.nest)
    if violation is not None:
        hint = "make the array larger or the loop shorter"
        raise module.source.error(reading.place(violation), violation.message, hint)
    return with_scalars_in_elements(with_values_recomputed(within_bounds(reading.nest)))


def _with_assumptions(error: SourceError, signature: tuple[Signature, ...]) -> SourceError:
    """The same, with what it rests on: types may have been taken from the use of arguments."""
    assumed = ", ".join(f"`{argument.name}`" for argument in signature if argument.is_assumed)
    if not assumed:
        return error
    shown = f"what {assumed} may be is guessed from the use: if that is wrong, {ANNOTATE}"
    return error.with_hint(f"{error.hint}\n  {shown}" if error.hint else shown)


def read_function(
    module: Module,
    function: ast.FunctionDef,
    signature: tuple[Signature, ...],
    examples: Mapping[str, Any] | None = None,
    *,
    may_be_opaque: bool = True,
) -> Reading:
    """One function of a module, whose arguments are of these types, for all sizes at which its arrays exist.

    `may_be_opaque`: whether what data decide is read as steps of which little is known (see `opaque`), or refused.

    Raises:
        SourceError: at the first thing that is not supported.
    """
    check_decorators(module, function)
    for name in _BUILT_IN:
        if name in module.functions or module.imports.get(name, name) != name:
            raise module.source.error(function, f"the module gives `{name}` a meaning of its own", "rename it there")
    for argument in signature:
        if is_reserved(argument.name):
            message = f"`{argument.name}` cannot be the name of an argument here"
            raise module.source.error(argument.node, message, "give it another name")
    spelled, meanings = _spelled(module, function, signature)
    first = copied(spelled)
    shapes = read_shapes(module, first, signature, _names_of(module, first))
    ranks = {argument.name: argument.dimensions or () for argument in signature}
    unnamed = frozenset(symbol for symbol, array, k in shapes.symbols if ranks[array][k] is None)
    try:
        return with_equal_sizes(
            shapes,
            unnamed,
            examples or {},
            lambda found: _walked(
                module, function, copied(spelled), signature, found, unnamed, may_be_opaque=may_be_opaque
            ),
        )
    except SourceError as error:
        raise error.with_names(meanings) from None


def check_decorators(module: Module, function: ast.FunctionDef) -> None:
    """Raise `SourceError` at a decorator under which the function may compute something else."""
    for decorator in function.decorator_list:
        if not is_transparent(module, decorator):
            message = f"decorator `@{ast.unparse(decorator)}` may change what the function does"
            raise module.source.error(decorator, message, "only `jit`, `njit` and type checkers are read over")


def _spelled(
    module: Module, function: ast.FunctionDef, signature: tuple[Signature, ...]
) -> tuple[ast.FunctionDef, dict[str, str]]:
    """A copy of the function in which a name stands for one array all the time, as far as it can be told.

    And what the names of its own were made for.
    """
    spelled = without_tuples(module, function)
    arrays = [argument.name for argument in signature if argument.is_array]
    names = FunctionNames.of(spelled, {*module.imports, *module.functions, *module.constants})
    meanings: dict[str, str] = {}

    def fresh(name: str) -> str:
        own = names.fresh(name)
        meanings[own] = name
        return own

    without_swaps(spelled, arrays, fresh)
    with_own_copies(spelled, arrays, fresh)
    return spelled, meanings


def _names_of(module: Module, spelled: ast.FunctionDef) -> FunctionNames:
    """The names in it, once variables that mean several things have several."""
    names = FunctionNames.of(spelled)
    names.taken |= {*module.imports, *module.functions, *module.constants}
    separate_own_variables(spelled.body, names.fresh)
    return FunctionNames.of(spelled, names.taken)


def _walked(
    module: Module,
    function: ast.FunctionDef,
    spelled: ast.FunctionDef,
    signature: tuple[Signature, ...],
    shapes: Shapes,
    unnamed: frozenset[str],
    *,
    may_be_opaque: bool,
) -> Reading:
    """The function with these sizes of its arrays; `spelled`, a copy of it as `_spelled` makes it, is changed."""
    names = _names_of(module, spelled)
    symbols = [symbol for symbol, _, _ in shapes.symbols]
    names.taken.update(symbols)
    scope = Scope(module, function.name, names, {s.name: s.dtype for s in signature if not s.is_array})
    whole = [s.name for s in signature if not s.is_array and scope.is_parameter(s.name)]
    free = FreeSizes(unnamed, frozenset([*symbols, *whole]))
    scope.check_sizes = free.check
    for argument in signature:
        if argument.is_array:
            scope.arrays[argument.name] = ArrayInfo(argument.dtype, shapes.extents[argument.name])
            scope.used.update(*(extent.names for extent in shapes.extents[argument.name]))
    others = {*scope.arguments, *scope.arrays, *symbols, *names.assigned}
    others |= {*module.imports, *module.functions, *module.constants}
    reader = ExpressionReader(scope)
    walker = FunctionWalker(scope, reader, LoopNames(names, frozenset(others)), Spelling(reader), may_be_opaque)
    tree = walker.walk(spelled)
    if not walker.loops:
        if walker.refused is not None:
            raise walker.refused
        raise module.source.error(function, f"`{function.name}` has no loops", "a kernel is a function of `for` loops")
    return Reading(_assemble(module, function, signature, shapes, walker, tree), tuple(walker.drafts))


def _assemble(
    module: Module,
    function: ast.FunctionDef,
    signature: tuple[Signature, ...],
    shapes: Shapes,
    walker: FunctionWalker,
    tree: Node,
) -> Nest:
    scope = walker.scope
    symbols = [symbol for symbol, _, _ in shapes.symbols]
    whole = [s.name for s in signature if scope.is_parameter(s.name) and s.name in scope.used]
    parameters = (*whole, *symbols)
    nest = Nest(
        name=function.name,
        arguments=tuple(_argument(s, whole) for s in signature),
        parameters=parameters,
        extents=shapes.symbols,
        context=_context(parameters, scope, walker.made),
        arrays=_arrays(signature, walker),
        statements=tuple(_statement(draft, parameters) for draft in walker.drafts),
        tree=tree,
        loops=tuple(walker.loops),
        prologue=tuple(f"{name} = {ast.unparse(value)}" for name, value in scope.prologue.items()),
        epilogue=(),
        preamble=preamble(module, _printed(function, walker), with_numba=False),
        original=original(module, function),
        file=module.source.file,
        free_sums=tuple(sorted(walker.free_sums)),
        is_decorated=bool(function.decorator_list),
        has_array_statements=walker.has_array_statements,
    )
    taken = {*scope.names.taken, *(loop.name for loop in walker.loops)}
    check_kept(nest, walker.drafts, module.source)
    webs = find_webs(nest, walker.drafts, module.source, {*scope.arguments}, walker.returned_scalars, taken)
    return with_temporaries_in_variables(with_webs(nest, walker, webs), walker.made)


def _printed(function: ast.FunctionDef, walker: FunctionWalker) -> list[ast.AST]:
    """Everything of the function that is printed again."""
    returned = () if walker.returned is None else (walker.returned,)
    arguments = function.args
    defaults = [default for default in (*arguments.defaults, *arguments.kw_defaults) if default is not None]
    return [*(draft.node for draft in walker.drafts), *walker.scope.prologue.values(), *returned, *defaults]


def _argument(signature: Signature, parameters: list[str]) -> Argument:
    if signature.is_array:
        kind = ArgumentKind.ARRAY
    else:
        kind = ArgumentKind.PARAMETER if signature.name in parameters else ArgumentKind.VALUE
    return Argument(signature.name, kind, signature.dtype, signature.default, signature.is_assumed)


def _context(parameters: tuple[str, ...], scope: Scope, made: AbstractSet[str]) -> str:
    """Every extent is at least 0; simple ones first, in the order of the parameters. `made` arrays have no elements
    where theirs are not."""
    given = [info for name, info in scope.arrays.items() if name not in made]
    extents = {str(extent): extent for info in given for extent in info.extents}
    shown = [name for name in parameters if name in extents]
    shown += [text for text, extent in extents.items() if text not in parameters and not extent.is_constant]
    conditions = " and ".join(f"{text} >= 0" for text in shown)
    return f"[{', '.join(parameters)}] -> {{ : {conditions} }}"


def _arrays(signature: tuple[Signature, ...], walker: FunctionWalker) -> tuple[Array, ...]:
    infos = walker.scope.arrays
    arrays = [
        Array(s.name, s.dtype, tuple(map(str, infos[s.name].extents)), Role.ARGUMENT) for s in signature if s.is_array
    ]
    for name, local in walker.locals.items():
        shape = tuple(map(str, local.info.extents))
        is_returned = name in walker.returned_arrays
        arrays.append(Array(name, local.info.dtype, shape, Role.LOCAL, local.fill, is_returned))
    return tuple(arrays)


def _statement(draft: Draft, parameters: tuple[str, ...]) -> Statement:
    iterators, conditions = draft.place.loops, draft.place.conditions
    used = frozenset[str]().union(*(condition.names for condition in conditions))
    prefix = ", ".join(name for name in parameters if name in used)
    condition = " and ".join(_closed(condition) for condition in conditions)
    instance = f"{draft.name}[{', '.join(iterators)}]" + (f" : {condition}" if condition else "")
    domain = f"[{prefix}] -> {{ {instance} }}" if prefix else f"{{ {instance} }}"
    line: int = draft.source.lineno
    return Statement(draft.name, iterators, domain, draft.accesses, ast.unparse(draft.node), line, draft.opaque)


def _closed(condition: Condition) -> str:
    return f"({condition.text})" if " or " in condition.text else condition.text


def _place(draft: Draft, violation: Violation) -> ast.AST:
    """Where in the source the offending subscript stands; the statement, where one line makes several."""
    if draft.opaque:
        return draft.source
    found = [node for node, _ in subscripted_arrays(draft.source)]
    own = [node for node, _ in subscripted_arrays(draft.node)]
    return found[violation.position] if len(found) == len(own) else draft.source
