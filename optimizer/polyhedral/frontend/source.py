"""The text of a module: where things stand in it, and what its top level defines."""

from __future__ import annotations

import ast
import warnings
from dataclasses import dataclass, field

from optimizer.errors import SourceError, UserError
from optimizer.polyhedral.frontend.affine import Affine, NotAffine, affine


@dataclass(frozen=True, slots=True)
class Source:
    """A file's text, for messages that show the place."""

    text: str
    file: str

    def error(self, node: ast.AST, message: str, hint: str = "", *, depends_on_data: bool = False) -> SourceError:
        """The error to raise about `node`; ast counts columns in UTF-8 bytes, people in characters."""
        line: int = getattr(node, "lineno", 1)
        lines = self.text.splitlines()
        text = lines[line - 1] if line <= len(lines) else ""
        column = len(text.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore"))
        place = {"file": self.file, "text": text, "hint": hint}
        return SourceError(message, line=line, column=column, depends_on_data=depends_on_data, **place)


@dataclass(frozen=True, slots=True)
class Module:
    """What the top level of a module defines."""

    source: Source
    functions: dict[str, ast.FunctionDef] = field(default_factory=dict[str, ast.FunctionDef])
    constants: dict[str, ast.expr] = field(default_factory=dict[str, ast.expr])
    """Names assigned exactly once, with what they are assigned."""
    imports: dict[str, str] = field(default_factory=dict[str, str])
    """Bound name -> what it stands for: `np` -> `numpy`, `sqrt` -> `math.sqrt`."""

    def resolve(self, node: ast.expr) -> str:
        """The full name of a function or constant: `np.sqrt` -> `numpy.sqrt`, `abs` -> `abs`; "" for anything else."""
        match node:
            case ast.Name(id=name):
                return self.imports.get(name, name)
            case ast.Attribute(value=value, attr=attribute):
                owner = self.resolve(value)
                return f"{owner}.{attribute}" if owner else ""
            case _:
                return ""

    def whole_number(self, name: str) -> Affine | None:
        """The value of a module-level integer constant; None when it is none."""

        def lookup(node: ast.expr) -> Affine | None:
            return self.whole_number(node.id) if isinstance(node, ast.Name) and node.id != name else None

        if name not in self.constants:
            return None
        try:
            value = affine(self.constants[name], lookup)
        except (NotAffine, RecursionError):
            return None
        return value if value.is_constant else None


def parse_module(text: str, file: str) -> Module:
    """Reads a module without running it.

    Raises:
        SourceError: at the place of a syntax error.
        UserError: for a text that is no Python source at all.
    """
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            tree = ast.parse(text)
    except SyntaxError as error:
        column = max((error.offset or 1) - 1, 0)
        shown = error.text or ""
        message = f"syntax error: {error.msg}"
        raise SourceError(message, file=file, line=error.lineno or 1, column=column, text=shown) from None
    except (ValueError, RecursionError, MemoryError) as error:
        raise UserError(f"{file}: not readable as Python source: {error}") from None
    return _read_top_level(Source(text, file), tree)


def _read_top_level(source: Source, tree: ast.Module) -> Module:
    module = Module(source)
    rebound = {name for node in ast.walk(tree) if isinstance(node, ast.Global) for name in node.names}
    for node in tree.body:
        match node:
            case ast.FunctionDef(name=name):
                module.functions[name] = node
            case ast.ClassDef() | ast.AsyncFunctionDef():
                continue
            case ast.Import(names=names):
                for alias in names:
                    top = alias.name.partition(".")[0]
                    module.imports[alias.asname or top] = alias.name if alias.asname else top
            case ast.ImportFrom(module=str(origin), names=names, level=0):
                for alias in names:
                    module.imports[alias.asname or alias.name] = f"{origin}.{alias.name}"
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(args=[ast.Name(id=same)])) if name == same:
                continue  # `f = njit(f)` means what `f` means
            case ast.Assign(targets=[ast.Name(id=name)], value=value):
                _bind(module, rebound, name, value)
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                _bind(module, rebound, name, value)
            case _:
                stored = (part for part in ast.walk(node) if isinstance(part, ast.Name))
                rebound |= {name.id for name in stored if not isinstance(name.ctx, ast.Load)}
    rebound |= module.constants.keys() & (module.functions.keys() | module.imports.keys())
    for name in rebound:
        module.constants.pop(name, None)
        module.functions.pop(name, None)
    return module


def _bind(module: Module, rebound: set[str], name: str, value: ast.expr) -> None:
    if name in module.constants:
        rebound.add(name)
    module.constants[name] = value
