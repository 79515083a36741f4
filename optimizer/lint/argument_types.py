"""Types of arguments for the linter, which takes what annotations leave open from how a function uses it."""

from __future__ import annotations

import ast

from optimizer.errors import UserError
from optimizer.polyhedral.frontend.signature import Signature, read_signature
from optimizer.polyhedral.frontend.source import Module
from optimizer.polyhedral.frontend.uses import Uses, uses_of


def signature_by_use(module: Module, function: ast.FunctionDef) -> tuple[Signature, ...]:
    """The arguments of `function`: as annotated where that says enough, else by use."""
    uses = uses_of(module, function.body)
    arguments = (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)
    return tuple(annotated(module, argument) or signature_of(uses, argument) for argument in arguments)


def annotated(module: Module, argument: ast.arg) -> Signature | None:
    """What the annotation of an argument says; None if it says too little."""
    if argument.annotation is None:
        return None
    alone = ast.arguments(posonlyargs=[], args=[argument], kwonlyargs=[], kw_defaults=[], defaults=[])
    function = ast.FunctionDef(name="_", args=alone, body=[], decorator_list=[])
    try:
        (signature,) = read_signature(module, function, None)
    except UserError:
        return None
    return signature


def signature_of(uses: Uses, argument: ast.arg) -> Signature:
    """By its use alone."""
    dtype, dimensions = uses.type_of(argument.arg)
    return Signature(argument.arg, argument, dtype, dimensions, None)
