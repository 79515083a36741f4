"""The frame of the command line: help, lists, exit statuses, what goes to which stream."""

import json
import subprocess
import sys
import time

import click
import pytest
from click.testing import CliRunner

from kernels import catalog
from optimizer.cli import COMMANDS, Commands, main
from optimizer.cli.output import print_json
from optimizer.errors import CandidateError, InfrastructureError, UserError
from optimizer.wording import seconds_text, speedup_text, table

HEAVY = ("numpy", "numba", "islpy", "rich", "scipy", "pydantic", "psutil")


def fresh_python(code: str) -> str:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60).stdout


def test_help_names_every_command_and_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom optimizer.cli import main\nmain(['--help'], standalone_mode=False)\n"
        f"print('HEAVY', [name for name in {HEAVY} if name in sys.modules])"
    )
    shown = fresh_python(code)
    assert all(f"\n  {name} " in shown for name in COMMANDS)
    assert shown.strip().endswith("HEAVY []")


def test_import_optimizer_is_light() -> None:
    code = f"import sys, optimizer\nprint([name for name in {HEAVY} if name in sys.modules])"
    assert fresh_python(code).strip() == "[]"


@pytest.mark.alone
def test_help_is_quick() -> None:
    times: list[float] = []
    for _ in range(5):
        start = time.perf_counter()
        subprocess.run([sys.executable, "-m", "optimizer.cli", "--help"], capture_output=True, check=True, timeout=60)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.3


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command: str) -> None:
    result = CliRunner().invoke(main, [command, "--help"])
    assert result.exit_code == 0, result.output
    assert result.stdout.startswith(f"Usage: main {command}")
    # The commands of a group have options of their own.
    assert "--json" in result.stdout or "COMMAND [ARGS]" in result.stdout


def test_version() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.exit_code == 0
    assert result.stdout.split()[-1][0].isdigit()


def test_kernels_lists_all_with_sizes_and_arrays() -> None:
    result = CliRunner().invoke(main, ["kernels", "--json"])
    listed = {kernel["name"]: kernel for kernel in json.loads(result.stdout)}
    assert tuple(listed) == catalog.names()
    assert listed["gemm"]["suite"] == "polybench"
    assert listed["gemm"]["sizes"]["large"] == {"ni": 1000, "nj": 1100, "nk": 1200}
    assert listed["gemm"]["arrays"][0] == {"name": "C", "dtype": "float64", "shape": ["ni", "nj"]}
    assert all(set(kernel) == {"name", "suite", "sizes", "arrays"} for kernel in listed.values())
    assert all(kernel["arrays"] for kernel in listed.values())


def test_kernels_for_people() -> None:
    lines = CliRunner().invoke(main, ["kernels"]).stdout.splitlines()
    assert len(lines) == len(catalog.names()) + 1
    assert any(line.startswith("matmul ") for line in lines)


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("policies", {"random", "hillclimb", "polyhedral", "replay", "mutate"}),
        ("verifiers", {"legality", "equivalence", "timing", "plausibility", "function-check", "test-suite"}),
    ],
)
def test_policies_and_verifiers_have_options_and_a_summary(command: str, expected: set[str]) -> None:
    listed = json.loads(CliRunner().invoke(main, [command, "--json"]).stdout)
    assert all(set(entry) == {"name", "options", "summary"} for entry in listed)
    assert all(entry["summary"] for entry in listed)
    assert expected <= {entry["name"] for entry in listed}
    assert not any({"bench", "seed", "chain"} & set(entry["options"]) for entry in listed)
    shown = CliRunner().invoke(main, [command]).stdout
    assert all(any(line.startswith(f"{name} ") for line in shown.splitlines()) for name in expected)


@pytest.mark.parametrize("arguments", [["nonsense"], ["kernels", "--nonsense"], ["check", "gemm"]])
def test_wrong_usage_is_the_users_error(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Error: " in result.stderr


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (UserError("no such thing"), 2, "error: no such thing\n"),
        (CandidateError("unknown step"), 2, "error: unknown step\n"),
        (InfrastructureError("the worker is gone"), 3, "error: the worker is gone\n"),
        (KeyboardInterrupt(), 130, "interrupted\n"),
    ],
)
def test_errors_become_one_message_and_a_status(error: BaseException, status: int, message: str) -> None:
    @click.command()
    def broken() -> None:
        raise error

    class OneCommand(Commands):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return broken

    result = CliRunner().invoke(OneCommand("loopwright"), ["run"])
    assert result.exit_code == status
    assert result.stdout == ""
    assert result.stderr == message


def test_a_bug_keeps_its_traceback() -> None:
    @click.command()
    def broken() -> None:
        raise ZeroDivisionError

    class OneCommand(Commands):
        def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command:
            return broken

    assert isinstance(CliRunner().invoke(OneCommand("loopwright"), ["run"]).exception, ZeroDivisionError)


def test_json_has_no_nan() -> None:
    with pytest.raises(ValueError, match="Out of range float"):
        print_json({"speedup": float("nan")})


def test_texts() -> None:
    assert table(("a", "bb"), [("xxx", "y")]) == "a    bb\nxxx  y"
    assert [seconds_text(s) for s in (12.345, 0.0123, 4.56e-6, 7e-9)] == ["12.3 s", "12.3 ms", "4.56 µs", "7 ns"]
    assert speedup_text(2.314, (2.25, 2.37)) == "2.31x (95% interval 2.25 to 2.37)"
