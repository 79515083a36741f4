"""Wrong input of every kind: exit status 2, one clear message, no traceback, nothing on standard output."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from pydantic import TypeAdapter

from optimizer.cli import main
from optimizer.journal import Journal
from optimizer.run import RunSpecification
from optimizer.text_problem import TextProblem

HEAD = 'import numpy as np\nfrom jaxtyping import Float64, Int64\n\nVector = Float64[np.ndarray, "n"]\n\n'
ANNOTATED = 'n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]'
GOOD = f"def scale({ANNOTATED}):\n    for i in range(n):\n        y[i] = 2.0 * x[i]\n"


def refused(*arguments: str) -> str:
    """The message with which a command refuses."""
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2, (result.exit_code, result.output, result.exception)
    assert result.stdout == ""
    assert sum(line.lower().startswith("error: ") for line in result.stderr.splitlines()) == 1
    assert "Traceback" not in result.stderr
    return result.stderr


def write(folder: Path, text: str) -> str:
    path = folder / "mine.py"
    path.write_text(HEAD + text, encoding="utf-8")
    return str(path)


def test_unknown_kernel_names_the_nearest() -> None:
    assert "gemm" in refused("run", "gemmm")


def test_missing_file(tmp_path: Path) -> None:
    assert "no such file" in refused("explain", str(tmp_path / "nothing.py"))


def test_syntax_error_is_shown_in_its_place(tmp_path: Path) -> None:
    message = refused("explain", write(tmp_path, "def broken(:\n    pass\n"))
    assert "mine.py:6:" in message
    assert "def broken(:" in message
    assert "^" in message


def test_no_such_function_names_those_there_are(tmp_path: Path) -> None:
    message = refused("explain", write(tmp_path, GOOD) + ":scala")
    assert "scala" in message
    assert "scale" in message.replace("scala`", "")


def test_several_functions_and_none_named(tmp_path: Path) -> None:
    message = refused("explain", write(tmp_path, GOOD + GOOD.replace("scale", "twice")))
    assert "scale" in message
    assert "twice" in message


@pytest.mark.parametrize(
    ("body", "place", "fragment"),
    [
        ("    y[0] = x[0]\n", "", "no function with loops or statements over arrays"),
        ("    i = 0\n    while i < n:\n        y[i] = x[i]\n        i += 1\n", "mine.py:8:", "while"),
        ("    for i in range(n):\n        kernel(n, x, y)\n", "mine.py:8:", "kernel"),
        ("    y[:] = x[idx]\n", "mine.py:7:", "idx"),
        ("    for i in range(n * n):\n        y[i] = x[i]\n", "mine.py:7:", "affine"),
        ("    for i in range(n):\n        y[i] = x[i + 1]\n", "mine.py:8:", "x"),
        ("    for i in range(n):\n        y[i - 1] = x[i]\n", "mine.py:8:", "y"),
    ],
    ids=["no loops", "while", "recursion", "indirect", "non-affine bound", "above the end", "below the start"],
)
def test_what_the_front_end_refuses_shows_its_place(tmp_path: Path, body: str, place: str, fragment: str) -> None:
    arguments = f'{ANNOTATED}, idx: Int64[np.ndarray, "n"]'
    file = write(tmp_path, f"def kernel({arguments}):\n{body}")
    message = refused("check", file, "", "--size", "n=10")
    assert place in message
    assert fragment in message


@pytest.mark.parametrize(
    ("size", "fragment"),
    [
        (None, "size"),
        ("n", "n"),
        ("n=0", "positive"),
        ("n=-3", "positive"),
        ("n=1.5", "integer"),
        ("n=ten", "integer"),
        ("m=5", "no size 'm'"),
        ("n=5,n=6", "twice"),
        ("huge", "unknown size"),
        ("n=1000000000000", "memory|GiB"),
    ],
)
def test_sizes(tmp_path: Path, size: str | None, fragment: str) -> None:
    file = write(tmp_path, GOOD)
    message = refused("run", file, *(("--size", size) if size else ()))
    assert any(part in message for part in fragment.split("|"))


def test_a_missing_size_among_several() -> None:
    assert "nk" in refused("run", "gemm", "--size", "ni=5,nj=5")


@pytest.mark.parametrize(
    ("schedule", "fragment"),
    [
        ("tyle(i=32)", "tile"),
        ("parallel(ii)", "did you mean|possible here|there are|loops"),
        ("tile(zz=32)", "zz"),
        ("unroll(k, factr=4)", "factr"),
        ("tile(i=0)", "i=0|0"),
        ("tile(i=-4)", "-4"),
        ("tile(i=wide)", "wide"),
        ("tile(i=32", "(|bracket|closed"),
        ("tile(i=32))", ")"),
        ("tile(i=32) parallel(i_t)", "parallel"),
        ("parallel", "parallel"),
        ("parallel()", "parallel"),
        (";;(", "("),
    ],
)
def test_schedules(schedule: str, fragment: str) -> None:
    message = refused("check", "matmul", schedule, "--size", "mini", "--no-timing", "--json")
    assert any(part in message for part in fragment.split("|"))


def test_unknown_policy_names_the_nearest() -> None:
    assert "hillclimb" in refused("run", "matmul", "--size", "mini", "--policy", "hilclimb")
    assert "random" in refused("bench", "--kernels", "matmul", "--policies", "randm", "--size", "mini")


@pytest.mark.parametrize("place", ["missing/fast.py", "."])
def test_unwritable_out_is_found_before_the_run(tmp_path: Path, place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path / "home"))
    message = refused("run", "matmul", "--size", "mini", "--evaluations", "1", "--out", str(tmp_path / place))
    assert "--out" in message
    assert not (tmp_path / "home").exists(), "nothing was run"


def test_out_never_overwrites_the_kernel(tmp_path: Path) -> None:
    file = write(tmp_path, GOOD)
    assert "own file" in refused("run", file, "--size", "n=5", "--out", file)
    assert Path(file).read_text(encoding="utf-8") == HEAD + GOOD


def test_a_used_run_folder(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "run.json").write_text("{}", encoding="utf-8")
    message = refused("run", "matmul", "--size", "mini", "--evaluations", "1", "--run-dir", str(tmp_path / "old"))
    assert "--run-dir" in message


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "home").write_text("a file where the folder should be", encoding="utf-8")
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path / "home"))
    message = refused("run", "matmul", "--size", "mini", "--evaluations", "1")
    assert "--run-dir" in message
    assert "LOOPWRIGHT_HOME" in message


def test_a_run_in_use_by_another_process(tmp_path: Path) -> None:
    seed = tmp_path / "start.txt"
    seed.write_text("hello", encoding="utf-8")
    problem = TextProblem.from_file(seed).specification()
    place = str(Path(__file__).parent / "data" / "no_check.py") + ":check"
    folder = tmp_path / "run"
    folder.mkdir()
    specification = RunSpecification(problem, "mutate", verifier_options={"check": place})
    (folder / "run.json").write_bytes(TypeAdapter(RunSpecification).dump_json(specification))
    with Journal(folder):
        assert "in use by process" in refused("resume", str(folder))


@pytest.mark.parametrize("command", ["resume", "replay", "rescore"])
def test_no_such_run(command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path))
    (tmp_path / "runs" / "20260101-gemm-abc").mkdir(parents=True)
    assert "20260101-gemm-abc" in refused(command, "20260101-gemm-abd")
    (tmp_path / "empty").mkdir()
    assert "no run folder" in refused(command, str(tmp_path / "empty"))


def test_a_damaged_specification(tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text("{not json", encoding="utf-8")
    assert "run.json" in refused("resume", str(tmp_path))


@pytest.mark.parametrize(
    ("arguments", "fragment"),
    [
        (["run"], "KERNEL"),
        (["run", "matmul", "--tests", "somewhere", "--seed-text", "x.py"], "--tests"),
        (["run", "--verifier", "check.py:check"], "--seed-text"),
        (["run", "matmul", "--seed-text", "start.txt"], "--seed-text"),
        (["run", "matmul", "--evaluations", "0"], "--evaluations"),
        (["run", "matmul", "--size", "mini", "--policy", "random", "--option", "max_lenght=3"], "max_length"),
        (
            ["run", "matmul", "--size", "mini", "--policy", "random", "--option", "max_length=many"],
            "option max_length of policy random cannot be 'many'",
        ),
        (["run", "matmul", "--size", "mini", "--option", "share"], "name=value"),
        (["run", "matmul", "--deadline", "3"], "--deadline means nothing for a kernel"),
        (["run", "--tests", "tests", "--seed-text", "x.py", "--size", "n=3"], "--size means nothing for a text"),
        (["run", "matmul", "--seconds", "0"], "--seconds"),
        (["run", "matmul", "--fp", "fast"], "strict"),
        (["bench", "--kernels", "gemm,gemm", "--policies", "random"], "twice"),
        (["bench", "--kernels", ",", "--policies", "random"], "kernel"),
    ],
)
def test_commands_that_do_not_say_one_thing(arguments: list[str], fragment: str) -> None:
    assert fragment in refused(*arguments)


def test_a_text_whose_check_or_seed_is_missing(tmp_path: Path) -> None:
    seed = tmp_path / "start.txt"
    message = refused("run", "--verifier", f"{tmp_path}/check.py:check", "--seed-text", str(seed))
    assert "start.txt" in message
    seed.write_text("hello", encoding="utf-8")
    arguments = ("run", "--verifier", f"{tmp_path}/check.py:check", "--seed-text", str(seed))
    assert "check.py" in refused(*arguments, "--run-dir", str(tmp_path / "run"))


def test_the_real_command_shows_no_traceback() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "optimizer.cli", "check", "matmul", "tile(i=0)", "--size", "mini", "--json"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert "Traceback" not in done.stderr
