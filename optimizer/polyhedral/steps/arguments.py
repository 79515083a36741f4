"""Between a step's text and its object: the fields of its dataclass are its options."""

from __future__ import annotations

import difflib
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields
from enum import Enum, auto
from functools import cache
from typing import Annotated, Any, TypeAlias, TypeVar, cast, get_args, get_origin, get_type_hints

from optimizer.errors import StepError
from optimizer.polyhedral.steps.affine import Affine
from optimizer.polyhedral.steps.text import Call

LoopName: TypeAlias = Annotated[str, "loop"]
StatementName: TypeAlias = Annotated[str, "statement"]
ArrayName: TypeAlias = Annotated[str, "array"]
PartName: TypeAlias = Annotated[str, "loop or statement"]
AffineText: TypeAlias = Annotated[str, "expression"]
"""An affine expression in the text of `steps/text.py`."""

KEYWORD = {"keyword": True}
"""Metadata of a field that is written with its name: `by=i`."""

MadeStep = TypeVar("MadeStep")


class _Form(Enum):
    NAME = auto()
    NUMBER = auto()
    EXPRESSION = auto()
    NAMES = auto()
    """`i, j, k`: takes all arguments without a name."""
    SIZES = auto()
    """`i=32, j=8`: takes all arguments with a name."""


@dataclass(frozen=True, slots=True)
class _Option:
    name: str
    form: _Form
    label: str
    default: Any
    is_keyword: bool

    def read(self, step: str, name: str, value: Affine) -> str | int:
        """The field's value that an argument means; `name` is what messages call it."""
        text = str(value)
        match self.form:
            case _Form.EXPRESSION:
                return text
            case _Form.NUMBER | _Form.SIZES:
                if value.terms:
                    raise StepError(f"{step}: {name} takes a whole number, not {text}")
                return value.constant
            case _Form.NAME | _Form.NAMES:
                if not text.isidentifier():
                    raise StepError(f"{step}: {name} takes the name of a {self.label}, not {text}")
                return text


def step_of_call(kind: type[MadeStep], call: Call) -> MadeStep:
    """The step that a call means; StepError says which argument is wrong."""
    options = _options(kind)
    match options[0].form:
        case _Form.SIZES:
            _refuse_arguments(kind, call, too_many=bool(call.positional))
            given = tuple((loop, options[0].read(call.name, loop, size)) for loop, size in call.keyword)
            values: dict[str, Any] = {options[0].name: given}
        case _Form.NAMES:
            _refuse_arguments(kind, call, too_many=bool(call.keyword))
            names = tuple(options[0].read(call.name, options[0].name, value) for value in call.positional)
            values = {options[0].name: names}
        case _:
            _refuse_arguments(kind, call, too_many=len(call.positional) > len(options))
            values = _values_by_option(kind, call)
    return cast("Callable[..., MadeStep]", kind)(**values)


def text_of(step: Any) -> str:
    """The canonical text: options in the order of the fields, without those that have their default."""
    written: list[str] = []
    left_out = False
    for option in _options(type(step)):
        value = getattr(step, option.name)
        if option.form is _Form.NAMES:
            written.extend(value)
        elif option.form is _Form.SIZES:
            written.extend(f"{loop}={size}" for loop, size in value)
        elif value == option.default:
            left_out = True
        else:
            written.append(f"{option.name}={value}" if option.is_keyword or left_out else str(value))
    return f"{step.name}({', '.join(written)})"


def usage(kind: type[Any]) -> str:
    """How the step is written: `skew(loop, by=loop[, factor=number])`."""
    written = ""
    for option in _options(kind):
        text = f"{option.name}={option.label}" if option.is_keyword else option.label
        if option.form is _Form.NAMES:
            text = f"{text}, {text}, ..."
        elif option.form is _Form.SIZES:
            text = f"{option.label}=number, ..."
        comma = ", " if written else ""
        written += f"{comma}{text}" if option.default is MISSING else f"[{comma}{text}]"
    return f"{kind.name}({written})"


def _values_by_option(kind: type[Any], call: Call) -> dict[str, str | int]:
    options = {option.name: option for option in _options(kind)}
    values: dict[str, str | int] = {}
    for name, value in [*zip(options, call.positional, strict=False), *call.keyword]:
        if name not in options:
            near = tuple(difflib.get_close_matches(name, options))
            raise StepError(f"{call.name} has no option {name}; write {usage(kind)}", near)
        if name in values:
            raise StepError(f"{call.name}: {name} is given twice; write {usage(kind)}")
        values[name] = options[name].read(call.name, name, value)
    for option in options.values():
        if option.name not in values and option.default is MISSING:
            raise StepError(f"{call.name} needs {option.name} (a {option.label}); write {usage(kind)}")
    return values


@cache
def _options(kind: type[Any]) -> tuple[_Option, ...]:
    hints = get_type_hints(kind, include_extras=True)
    return tuple(
        _Option(field.name, *_form(hints[field.name]), field.default, field.metadata.get("keyword", False))
        for field in fields(kind)
    )


def _form(hint: Any) -> tuple[_Form, str]:
    if hint is int:
        return _Form.NUMBER, "number"
    if hint is str:
        return _Form.NAME, "name"
    if get_origin(hint) is Annotated:
        label = get_args(hint)[1]
        return (_Form.EXPRESSION if hint == AffineText else _Form.NAME), label
    part = get_args(hint)[0]
    if get_origin(part) is tuple:
        return _Form.SIZES, _form(get_args(part)[0])[1]
    return _Form.NAMES, _form(part)[1]


def _refuse_arguments(kind: type[Any], call: Call, *, too_many: bool) -> None:
    if too_many:
        raise StepError(f"{call.text} has arguments that {call.name} does not take; write {usage(kind)}")
