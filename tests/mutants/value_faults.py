"""Faults of what is computed: wrong arrays, subscripts, operators and numbers, and values treated wrongly."""

from __future__ import annotations

import ast
from collections.abc import Callable

from tests.mutants.fault import Fault, Scope, at_each, computed_as
from tests.mutants.site import Site, array_name, expression, indices, ranks

Change = Callable[[Site], object]


def is_element(site: Site) -> bool:
    """An element of an array, read or written."""
    return isinstance(site.node, ast.Subscript) and array_name(site.node) is not None and not site.is_in_index


def is_read(site: Site) -> bool:
    return is_element(site) and isinstance(site.node, ast.Subscript) and isinstance(site.node.ctx, ast.Load)


def is_written(site: Site) -> bool:
    return is_element(site) and not is_read(site)


def is_matrix_element(site: Site) -> bool:
    return isinstance(site.node, ast.Subscript) and is_element(site) and len(indices(site.node)) > 1


def is_index_variable(site: Site) -> bool:
    return site.is_in_index and isinstance(site.node, ast.Name) and _is_loop_variable(site, site.node.id)


def _is_loop_variable(site: Site, name: str) -> bool:
    return name in [loop.target.id for loop in site.loops if isinstance(loop.target, ast.Name)]


def is_operation(*kinds: type[ast.operator]) -> Callable[[Site], bool]:
    def matches(site: Site) -> bool:
        return site.is_in_value and isinstance(site.node, ast.BinOp) and isinstance(site.node.op, kinds)

    return matches


def is_nested_operation(site: Site) -> bool:
    match site.node:
        case ast.BinOp(ast.BinOp(_, inner, _), outer, _):
            return site.is_in_value and type(inner) is type(outer) and isinstance(outer, ast.Add | ast.Mult)
        case _:
            return False


def is_number(site: Site) -> bool:
    return site.is_in_value and isinstance(site.node, ast.Constant) and isinstance(site.node.value, float)


def is_choice(site: Site) -> bool:
    return site.is_in_value and isinstance(site.node, ast.IfExp)


def is_value_comparison(site: Site) -> bool:
    return site.is_in_value and isinstance(site.node, ast.Compare)


def is_extremum(site: Site) -> bool:
    match site.node:
        case ast.Call(func=ast.Name("min" | "max"), args=[_, _]):
            return site.is_in_value
        case _:
            return False


def other_array(site: Site) -> bool:
    """The next array of as many dimensions."""
    assert isinstance(site.node, ast.Subscript)
    assert isinstance(site.node.value, ast.Name)
    known = ranks(site.function)
    name = site.node.value.id
    alike = [other for other in sorted(known) if known[other] == known[name]]
    if len(alike) < 2:
        return False
    site.node.value.id = alike[(alike.index(name) + 1) % len(alike)]
    return True


def swap_indices(site: Site) -> None:
    assert isinstance(site.node, ast.Subscript)
    subscripts = indices(site.node)
    subscripts[0], subscripts[-1] = subscripts[-1], subscripts[0]


def shift_index(position: int, by: int) -> Change:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Subscript)
        index = indices(site.node)[position]
        inner = index.args[0] if isinstance(index, ast.Call) else index
        moved = expression(f"INDEX + {by}" if by > 0 else f"INDEX - {-by}", INDEX=inner)
        if isinstance(index, ast.Call):
            index.args[0] = moved
        elif isinstance(site.node.slice, ast.Tuple):
            site.node.slice.elts[position] = moved
        else:
            site.node.slice = moved

    return change


def other_variable(site: Site) -> bool:
    """The next loop variable."""
    assert isinstance(site.node, ast.Name)
    names = [loop.target.id for loop in site.loops if isinstance(loop.target, ast.Name)]
    if len(names) < 2:
        return False
    site.node.id = names[names.index(site.node.id) - 1]
    return True


def swap_operands(site: Site) -> None:
    assert isinstance(site.node, ast.BinOp)
    site.node.left, site.node.right = site.node.right, site.node.left


def drop_right_operand(site: Site) -> None:
    assert isinstance(site.node, ast.BinOp)
    site.replace(site.node.left)


def operate_with(operator: type[ast.operator]) -> Change:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.BinOp)
        site.node.op = operator()

    return change


def regroup(site: Site) -> None:
    assert isinstance(site.node, ast.BinOp)
    assert isinstance(site.node.left, ast.BinOp)
    left = site.node.left
    site.replace(ast.BinOp(left.left, site.node.op, ast.BinOp(left.right, site.node.op, site.node.right)))


def rewrite(text: str) -> Change:
    """An operation `L op R` in another way."""

    def change(site: Site) -> None:
        assert isinstance(site.node, ast.BinOp)
        site.replace(expression(text, L=site.node.left, R=site.node.right))

    return change


def change_number(change_value: Callable[[float], float]) -> Change:
    def change(site: Site) -> None:
        assert isinstance(site.node, ast.Constant)
        site.replace(ast.Constant(change_value(site.node.value)))

    return change


def swap_branches(site: Site) -> None:
    assert isinstance(site.node, ast.IfExp)
    site.node.body, site.node.orelse = site.node.orelse, site.node.body


def move_boundary(site: Site) -> bool:
    assert isinstance(site.node, ast.Compare)
    others = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq}
    other = others.get(type(site.node.ops[0]))
    if other is None:
        return False
    site.node.ops[0] = other()
    return True


def reverse_comparison(site: Site) -> bool:
    """`a < b` as `not a >= b`: the same but for NaN."""
    assert isinstance(site.node, ast.Compare)
    opposites = {ast.Lt: ast.GtE, ast.LtE: ast.Gt, ast.Gt: ast.LtE, ast.GtE: ast.Lt}
    other = opposites.get(type(site.node.ops[0]))
    if other is None:
        return False
    site.node.ops[0] = other()
    site.replace(ast.UnaryOp(ast.Not(), site.node))
    return True


def swap_arguments(site: Site) -> None:
    assert isinstance(site.node, ast.Call)
    site.node.args.reverse()


def exchange_extremum(site: Site) -> None:
    assert isinstance(site.node, ast.Call)
    assert isinstance(site.node.func, ast.Name)
    site.node.func.id = {"min": "max", "max": "min"}[site.node.func.id]


def round_sum(site: Site) -> None:
    assert isinstance(site.node, ast.AugAssign)
    target = site.node.target
    total = ast.BinOp(expression(ast.unparse(target)), site.node.op, site.node.value)
    site.replace(ast.Assign([target], expression("np.float32(TOTAL)", TOTAL=total), lineno=0))


NEVER_SO = "such a value never occurs there"

VALUE_FAULTS = (
    Fault(
        "wrong-array-read",
        "an element comes from another array of as many dimensions",
        at_each(is_read, other_array),
        "both arrays hold the same",
    ),
    Fault("wrong-array-written", "an element goes to another array", at_each(is_written, other_array)),
    Fault(
        "indices-swapped",
        "two subscripts of an element change places",
        at_each(is_matrix_element, swap_indices),
        "both subscripts are equal, or the matrix is symmetric",
    ),
    Fault("index-plus-one", "the last subscript is one too large", at_each(is_element, shift_index(-1, 1))),
    Fault(
        "index-minus-one",
        "the last subscript is one too small",
        at_each(is_element, shift_index(-1, -1)),
        "the index -1 is the last element, so that all elements are taken once, in another order",
    ),
    Fault(
        "first-index-plus-one", "the first subscript is one too large", at_each(is_matrix_element, shift_index(0, 1))
    ),
    Fault(
        "first-index-minus-one", "the first subscript is one too small", at_each(is_matrix_element, shift_index(0, -1))
    ),
    Fault("wrong-variable", "a subscript is another loop's variable", at_each(is_index_variable, other_variable)),
    Fault(
        "operands-swapped",
        "the operands of a difference or a quotient change places",
        at_each(is_operation(ast.Sub, ast.Div), swap_operands),
        "the two operands are equal",
    ),
    Fault(
        "operand-dropped",
        "an operation lost its second operand",
        at_each(is_operation(ast.operator), drop_right_operand),
    ),
    Fault("sum-becomes-difference", "`+` becomes `-`", at_each(is_operation(ast.Add), operate_with(ast.Sub))),
    Fault("difference-becomes-sum", "`-` becomes `+`", at_each(is_operation(ast.Sub), operate_with(ast.Add))),
    Fault(
        "product-becomes-quotient",
        "`*` becomes `/`",
        at_each(is_operation(ast.Mult), operate_with(ast.Div)),
        "the second operand is one",
    ),
    Fault(
        "regrouped",
        "`(a + b) + c` is computed as `a + (b + c)`",
        at_each(is_nested_operation, regroup),
        "no rounding happens",
        scope=Scope.FLOAT,
    ),
    Fault(
        "reciprocal",
        "`a / b` is computed as `a * (1 / b)`",
        at_each(is_operation(ast.Div), rewrite("L * (1.0 / R)")),
        "the divisor is a power of two",
        scope=Scope.FLOAT,
    ),
    Fault(
        "number-changed",
        "a number in the program is another one",
        at_each(is_number, change_number(lambda value: value + 1.0)),
    ),
    Fault(
        "number-rounded",
        "a number in the program is off in its last bit",
        at_each(is_number, change_number(lambda value: value * (1 + 2**-52))),
        "the number is zero",
    ),
    Fault("branches-swapped", "the two values of a choice change places", at_each(is_choice, swap_branches)),
    Fault(
        "comparison-boundary",
        "`<` becomes `<=` in a choice",
        at_each(is_value_comparison, move_boundary),
        "both values of the choice are equal there",
    ),
    Fault(
        "comparison-reversed",
        "`a < b` is asked as `not a >= b`, so that NaN takes the other branch",
        at_each(is_value_comparison, reverse_comparison),
        NEVER_SO,
        scope=Scope.FLOAT,
    ),
    Fault(
        "extremum-arguments-swapped",
        "`min(a, b)` is `min(b, a)`: another result for NaN and zeros of both signs",
        at_each(is_extremum, swap_arguments),
        "integers have neither",
    ),
    Fault("value-extremum-exchanged", "min becomes max", at_each(is_extremum, exchange_extremum)),
    Fault("sign-flipped", "a value has the opposite sign", computed_as("-X"), "the value is zero"),
    Fault("negatives-flipped", "negative values lose their sign", computed_as("abs(X)"), "no value is negative"),
    Fault(
        "small-difference",
        "a value is off by one part in 10**13",
        computed_as("X * 1.0000000000001"),
        "the value is zero or is rounded away",
        scope=Scope.FLOAT,
    ),
    Fault(
        "float32-operand",
        "a value is rounded to half its width",
        computed_as("np.float32(X)"),
        "the array holds float32 anyway, or the values are exact in float32",
        scope=Scope.FLOAT,
    ),
    Fault(
        "float32-accumulator",
        "a sum is kept in half its width",
        at_each(lambda site: isinstance(site.node, ast.AugAssign), round_sum),
        "the array holds float32 anyway",
        scope=Scope.FLOAT,
    ),
    Fault(
        "denormals-flushed",
        "the smallest numbers become zero",
        computed_as("(X if abs(X) >= 2.2250738585072014e-308 or X != X else 0.0)"),
        NEVER_SO,
        scope=Scope.FLOAT,
    ),
    Fault(
        "infinity-clipped",
        "infinities become the largest number",
        computed_as("min(max(X, -1.7976931348623157e308), 1.7976931348623157e308)"),
        NEVER_SO,
        scope=Scope.FLOAT,
    ),
    Fault("nan-lost", "NaN becomes zero", computed_as("(X if X == X else 0.0)"), NEVER_SO, scope=Scope.FLOAT),
    Fault(
        "negative-zero-lost",
        "-0.0 becomes 0.0",
        computed_as("(X + 0.0)"),
        "the sign of a zero there reaches no result",
        scope=Scope.FLOAT,
    ),
    Fault(
        "huge-lost",
        "huge numbers become zero",
        computed_as("(X if not abs(X) > 1e300 else 0.0)"),
        NEVER_SO,
        scope=Scope.FLOAT,
    ),
)
