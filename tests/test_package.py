"""What is imported here is this checkout, and starting is light."""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("optimizer", "kernels", "verifiers", "benchmarks")
UNPICKLERS = frozenset({"pickle", "cPickle", "marshal", "shelve", "dill", "cloudpickle", "multiprocessing.connection"})
HEAVY = ("numpy", "numba", "islpy", "rich", "scipy", "pydantic")


@pytest.mark.parametrize("name", PACKAGES)
def test_each_package_is_that_of_this_checkout(name: str) -> None:
    """`verifiers` and `kernels` are names of other projects' packages as well."""
    file = importlib.import_module(name).__file__
    assert file is not None
    assert Path(file).resolve() == ROOT / name / "__init__.py"


def test_the_command_is_that_of_this_checkout_and_imports_nothing_heavy() -> None:
    script = (
        "import sys\n"
        "from importlib.metadata import entry_points\n"
        "(command,) = entry_points(group='console_scripts', name='loopwright')\n"
        "command.load()(['--help'], standalone_mode=False)\n"
        f"print('HEAVY', [name for name in {HEAVY} if name in sys.modules])\n"
        "print('FILE', sys.modules['optimizer.cli'].__file__)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    *_, heavy, file = done.stdout.splitlines()
    assert heavy == "HEAVY []"
    assert file == f"FILE {ROOT / 'optimizer' / 'cli' / '__init__.py'}"


def test_nothing_heavy_comes_with_the_import() -> None:
    script = f"import sys, optimizer; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_nothing_is_unpickled() -> None:
    """What a process answers or a file holds may come from anybody: it is data, never objects with code."""
    found = [
        f"{path.relative_to(ROOT)}: {name}"
        for folder in PACKAGES
        for path in (ROOT / folder).rglob("*.py")
        for name in unpickling(ast.parse(path.read_text(encoding="utf-8")))
    ]
    assert found == []
    for text in ("import pickle as p", "from pickle import loads", "numpy.load(file, allow_pickle=True)", "np.load(f)"):
        assert list(unpickling(ast.parse(text))), text


def unpickling(tree: ast.Module) -> Iterator[str]:
    """What in a module makes, or may make, objects of foreign bytes."""
    for node in ast.walk(tree):
        match node:
            case ast.Import(names):
                yield from {alias.name for alias in names} & UNPICKLERS
            case ast.ImportFrom(module=str(module)) if module in UNPICKLERS:
                yield module
            case ast.Call(ast.Attribute(ast.Name("np" | "numpy"), "load"), _, keywords):
                safe = [k for k in keywords if k.arg == "allow_pickle" and ast.unparse(k.value) == "False"]
                yield from () if safe else ("numpy.load",)
            case _:
                pass
