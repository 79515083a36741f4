"""Parallel loops whose iterations depend on each other: through an array (`race`), or through a scalar that is no
reduction (`not-a-reduction`).

Something is said only if it happens at every size at which the loop has more than a fixed number of iterations: where a
race needs two sizes to be in some relation, callers may see to it that they never are.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import islpy as isl

from optimizer.lint.dataflow import Flow, maps_of, model_of_array, sets_of
from optimizer.lint.finding import Finding, Rule
from optimizer.lint.subject import Subject
from optimizer.lint.wording import told
from optimizer.polyhedral.legality import carried_by
from optimizer.polyhedral.model import Model
from optimizer.polyhedral.nest import Array, Nest, Role, Statement
from optimizer.polyhedral.order import relation_text, timed_leaves
from optimizer.polyhedral.tree import Loop, Node, Sequence, leaves
from optimizer.polyhedral.witness import Fault, Kind, Witness, witness_of

_ACCUMULATE = (
    "accumulate by one statement, `{0} += ...` (`-=`, `*=`, `/=`, `max`, `min`), and read `{0}` after the loop"
)


def races(subject: Subject) -> Iterator[Finding]:
    """Arrays through which iterations of a `prange` depend on each other."""
    for loop, node in _parallel_loops(subject):
        shared = _names(subject.function) - _bound_in(node)
        for array in subject.nest.arrays:
            if array.role is Role.SCALAR or array.name not in shared or not _users(subject, loop, array, is_write=True):
                continue
            model = model_of_array(subject.nest, array.name)
            carried = carried_by(model, timed_leaves(model.nest.tree), loop)
            witness = _witness(subject, model, loop, _of_elements(subject, carried))
            if witness is not None:
                message = f"iterations of this parallel loop depend on each other: {told(subject, witness)}"
                yield Finding(Rule.RACE, subject.function.name, node.iter, message, _hint(subject, witness), witness)


def broken_reductions(subject: Subject) -> Iterator[Finding]:
    """Scalars that an iteration of a `prange` takes over from another one, or leaves behind."""
    for loop, _ in _parallel_loops(subject):
        for array in subject.nest.arrays:
            if array.role is not Role.SCALAR or not _users(subject, loop, array, is_write=True):
                continue
            users = _users(subject, loop, array)
            others = [statement for statement in users if not _is_reduction(statement, array.name)]
            if not others or any(map(subject.depends_on_data, users)):
                continue
            blamed = subject.source_of(others[0].name)
            name = subject.scalar_name(array.name)
            model = model_of_array(subject.nest, array.name)
            flow = Flow(model)
            carried = carried_by(model, timed_leaves(model.nest.tree), loop)
            if blamed is None:
                continue
            if witness := _witness(subject, model, loop, carried.intersect(flow.pairs)):
                what = f"`{name}` passes from iteration to iteration of a parallel loop, and not as a reduction"
                message, hint = f"{what}: {told(subject, witness)}", _ACCUMULATE.format(name)
            elif _is_left_behind(subject, loop, array, flow) and (witness := _witness(subject, model, loop, carried)):
                what = f"each iteration of a parallel loop overwrites `{name}`, and which one comes last is not defined"
                message = f"{what}: {told(subject, witness)}"
                hint = f"to accumulate, write `{name} += ...`; for the last value, compute it after the loop"
            else:
                continue
            yield Finding(Rule.NOT_A_REDUCTION, subject.function.name, blamed[0], message, hint, witness)


def _hint(subject: Subject, witness: Witness) -> str:
    body = ast.parse(subject.nest.statement(witness.sink).body).body[0]
    accumulates = isinstance(body, ast.AugAssign) and witness.array not in _names(body.value)
    if witness.kind is Kind.WAW or (accumulates and witness.source == witness.sink):
        return "give each iteration elements of its own, or make another loop the parallel one"
    return "write the results to another array, or let `range` run this loop"


def _parallel_loops(subject: Subject) -> Iterator[tuple[Loop, ast.For]]:
    """The outermost `prange` loops: Numba runs those inside them one iteration after the other."""
    names = {loop.name for loop in subject.nest.loops if loop.is_prange}

    def visit(node: Node) -> Iterator[Loop]:
        match node:
            case Loop():
                yield from [node] if node.name in names else visit(node.body)
            case Sequence():
                for part in node.parts:
                    yield from visit(part)
            case _:
                return

    for loop in visit(subject.nest.tree):
        if (source := subject.loop_node(loop.name)) is not None:
            yield loop, source


def _users(subject: Subject, loop: Loop, array: Array, *, is_write: bool | None = None) -> list[Statement]:
    """The statements in a loop that touch, write or read an array."""
    inside = {leaf.statement for leaf in leaves(loop)}
    return [statement for statement in subject.users(array, is_write=is_write) if statement.name in inside]


def _witness(subject: Subject, model: Model, loop: Loop, pairs: isl.UnionMap) -> Witness | None:
    """One of the pairs of iterations that occur at every size at which the loop has more than a few iterations."""
    certain = isl.UnionMap("{ }")
    for found in maps_of(pairs):
        source, sink = (model.nest.statement(name) for name in _ends(found))
        is_unsure = subject.depends_on_data(source) or subject.depends_on_data(sink)
        if not is_unsure and _is_certain(model.nest, loop, found):
            certain = certain.union(isl.UnionMap.from_map(found))
    if certain.is_empty():
        return None
    return witness_of(model, timed_leaves(model.nest.tree), certain, Fault.RACE, loop.name)


def _is_certain(nest: Nest, loop: Loop, found: isl.Map) -> bool:
    """Whether, at the sizes without such a pair, any two iterations are less than some fixed number apart."""
    source, sink = (_up_to(nest, loop, name) for name in _ends(found))
    depth = source.dim(isl.dim_type.out) - 1
    context = isl.Set(nest.context)
    around = [each.project_out(isl.dim_type.out, depth, 1) for each in (source, sink)]
    two = around[0].apply_range(around[1].reverse()).subtract(source.apply_range(sink.reverse()))
    two = two.intersect_params(context)
    fine = two.params().subtract(found.params())
    if fine.is_empty():
        return True
    values = [each.project_out(isl.dim_type.out, 0, depth) for each in (source, sink)]
    far = two.intersect_params(fine).apply_domain(values[0]).apply_range(values[1]).deltas().project_out_all_params()
    return far.dim_max_val(0).is_int() and far.dim_min_val(0).is_int()


def _up_to(nest: Nest, loop: Loop, statement: str) -> isl.Map:
    """From the iterations of a statement to their place in the loops around it, down to this one."""
    (timed,) = [each for each in timed_leaves(nest.tree) if each.leaf.statement == statement]
    text = relation_text(nest, (timed,), slice(0, timed.levels.index(loop.name) + 1))
    return isl.Map(text).intersect_domain(isl.Set(nest.statement(statement).domain))


def _of_elements(subject: Subject, pairs: isl.UnionMap) -> isl.UnionMap:
    """Without those about an array that Numba reduces as a whole (`total += A[i]`), and those that write a constant."""
    found = isl.UnionMap("{ }")
    for pair in maps_of(pairs):
        ends = _ends(pair)
        is_reduced = all(_reduces_array(subject, name) for name in ends)
        is_constant = ends[0] == ends[1] and _value(subject.nest.statement(ends[0])) is not None
        if not is_reduced and not is_constant:
            found = found.union(isl.UnionMap.from_map(pair))
    return found


def _reduces_array(subject: Subject, statement: str) -> bool:
    found = subject.source_of(statement)
    match found and found[0]:
        case ast.AugAssign(target=ast.Name()):
            return True
        case ast.Assign(targets=[ast.Name(id=name)], value=ast.BinOp(left=ast.Name(id=same))):
            return name == same
        case _:
            return False


def _value(statement: Statement) -> ast.Constant | None:
    """The constant that a statement assigns."""
    match ast.parse(statement.body).body[0]:
        case ast.Assign(value=ast.Constant() as value):
            return value
        case _:
            return None


def _is_reduction(statement: Statement, name: str) -> bool:
    """Whether Numba takes an assignment for a reduction into the scalar."""
    match ast.parse(statement.body).body[0]:
        case ast.AugAssign(target=ast.Name(id=target), op=operator, value=value):
            left: ast.expr = ast.Name(target)
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.BinOp(left=left, op=operator, right=value)):
            pass
        case ast.Assign(targets=[ast.Name(id=target)], value=ast.Call(func=ast.Name("max" | "min"), args=arguments)):
            return target == name and sum(name in _names(each) for each in arguments) == 1
        case _:
            return False
    is_known = isinstance(operator, ast.Add | ast.Sub | ast.Mult | ast.Div)
    is_own = target == name and isinstance(left, ast.Name) and left.id == name
    return is_known and is_own and name not in _names(value)


def _is_left_behind(subject: Subject, loop: Loop, array: Array, flow: Flow) -> bool:
    """Whether something after the loop reads what some iteration wrote."""
    inside = {leaf.statement for leaf in leaves(loop)}
    if array.returned and any(point.get_tuple_name() in inside for point in sets_of(flow.left)):
        return True
    return any(_ends(pair)[0] in inside and _ends(pair)[1] not in inside for pair in maps_of(flow.pairs))


def _bound_in(node: ast.For) -> set[str]:
    """What a loop gives a name inside it: each iteration has its own."""
    return {part.id for part in ast.walk(node) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def _names(node: ast.AST) -> set[str]:
    every = ast.walk(node)
    return {
        part.id if isinstance(part, ast.Name) else part.arg for part in every if isinstance(part, ast.Name | ast.arg)
    }


def _ends(pair: isl.Map) -> tuple[str, str]:
    return str(pair.get_tuple_name(isl.dim_type.in_)), str(pair.get_tuple_name(isl.dim_type.out))
