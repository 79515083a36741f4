"""What is imported here is this checkout, and starting is light."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
HEAVY = ("numpy", "numba", "islpy", "rich", "scipy", "pydantic")


@pytest.mark.parametrize("name", ["optimizer", "kernels", "verifiers", "benchmarks"])
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
