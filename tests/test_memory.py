"""Memory across runs: what is kept of a run, to whom it is offered under which names, the file, and the commands."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from kernels import catalog
from optimizer.budget import Amounts
from optimizer.candidate import Candidate
from optimizer.cli import main
from optimizer.errors import StepError, UserError
from optimizer.events import RunResult
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.machine import this_machine
from optimizer.memory.entry import Entry, entry_from_json, entry_to_json
from optimizer.memory.hints import Hint, Likeness, hints, remember
from optimizer.memory.pattern import pattern_of, schedule_of
from optimizer.memory.store import Memory
from optimizer.memory.structure import structure_of
from optimizer.plan import StopReason
from optimizer.polyhedral.frontend import nest_of_file
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.run import Run, RunSpecification
from optimizer.selection import Selection
from optimizer.text_problem import TextProblem
from optimizer.trial import Trial
from optimizer.verdict import Measurement, Status, Verdict

ROOT = Path(__file__).parents[1]
NOW = datetime(2030, 5, 17, 12, tzinfo=UTC)
HERE, ELSEWHERE = "0123456789abcdef", "fedcba9876543210"
FAST = "distribute(i); tile(i_2=32, k=32, j_2=32); parallel(i_2_t)"
"""Of gemm."""

RENAMED = """
import numpy as np
from jaxtyping import Float64


def multiply(
    right: Float64[np.ndarray, "depth columns"],
    left: Float64[np.ndarray, "rows depth"],
    out: Float64[np.ndarray, "rows columns"],
    weight: float,
    rows: int,
    columns: int,
    depth: int,
):
    for r in range(rows):
        for c in range(columns):
            out[r, c] *= 0.5
        for d in range(depth):
            for c in range(columns):
                out[r, c] += weight * left[r, d] * right[d, c]
"""
"""gemm under other names, with its arguments in another order."""
SAME_LOOPS = RENAMED.replace("left[r, d] * right[d, c]", "right[d, c] * left[r, d]")
BACKWARDS = RENAMED.replace("left[r, d] * right[d, c]", "out[r - 1, c]").replace("in range(rows)", "in range(1, rows)")
RECURRENCE = """
import numpy as np
from jaxtyping import Float64


def {name}(n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n"]):
    for i in range(1, n):
        y[i] = 0.5 * {read}
"""


@pytest.fixture(scope="module")
def gemm() -> KernelProblem:
    return KernelProblem.load("gemm", "small", threads=2)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "home" / "memory.jsonl")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The memory that commands see."""
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path / "home"))
    return Memory()


def own_problem(folder: Path, source: str, name: str = "multiply", **sizes: int) -> KernelProblem:
    path = folder / f"{name}.py"
    path.write_text(source, encoding="utf-8")
    sizes = sizes or {"rows": 60, "columns": 70, "depth": 80}
    return KernelProblem.load(f"{path}:{name}", sizes, threads=2)


def run_of(
    problem: KernelProblem,
    schedule: str,
    speedup: float = 3.0,
    spread: float = 0.1,
    machine: str = HERE,
    when: datetime = NOW,
) -> Run:
    """A run that ended with this winner."""
    one = Measurement(1.0, (1.0, 1.0), 0)
    baseline = Trial(0, 0, 0, problem.baseline, (Verdict(Status.OK, "baseline", measurement=one),))
    measured = Measurement(speedup, (speedup - spread, speedup + spread), 9)
    timing = Verdict(Status.OK, "timing", measurement=measured)
    winner = Trial(1, 0, 1, problem.parse(schedule), (timing,), when=when.timestamp())
    selection = Selection(winner, measured, measured) if schedule else Selection(baseline, one, None)
    result = RunResult((baseline, winner), selection, (), StopReason.STEPS_DONE, (), Amounts())
    specification = RunSpecification(
        problem.specification(), "polyhedral", machine={"digest": machine, "description": "a machine"}
    )
    return Run(Path("run-1"), specification, problem, result)


def kept(memory: Memory, problem: KernelProblem, schedule: str = FAST, **changes: Any) -> Entry:
    entry = remember(run_of(problem, schedule, **changes), memory=memory)
    assert entry is not None
    return entry


def offered(memory: Memory, problem: KernelProblem, now: datetime = NOW, **changes: Any) -> list[str]:
    return [hint.schedule for hint in hints(problem, HERE, now, memory=memory, **changes)]


# -- what is kept


def test_the_winner_of_a_run_is_kept(memory: Memory, gemm: KernelProblem) -> None:
    entry = kept(memory, gemm)
    assert memory.read().entries == (entry,)
    assert (entry.kernel, entry.nest, entry.schedule) == ("gemm", gemm.nest.digest, FAST)
    assert (entry.speedup, entry.interval, entry.threads, entry.fp) == (3.0, (2.9, 3.1), 2, "contract")
    assert entry.sizes == {"ni": 60, "nj": 70, "nk": 80}
    assert (entry.machine, entry.machine_description) == (HERE, "a machine")
    assert entry.expires - entry.created == timedelta(days=90)
    assert Path(entry.run).is_absolute()


@pytest.mark.parametrize(
    "changes",
    [
        {"schedule": ""},
        {"schedule": FAST, "speedup": 1.05, "spread": 0.05},
        {"schedule": FAST, "speedup": 0.5},
    ],
    ids=["the original won", "the interval reaches 1", "slower"],
)
def test_what_is_not_surely_faster_is_not_kept(memory: Memory, gemm: KernelProblem, changes: dict[str, Any]) -> None:
    assert remember(run_of(gemm, **changes), memory=memory) is None
    assert not memory.path.exists()


def test_a_winner_that_was_not_measured_again_is_not_kept(memory: Memory, gemm: KernelProblem) -> None:
    run = run_of(gemm, FAST)
    selection = replace(run.result.selection, measured=None)
    assert remember(replace(run, result=replace(run.result, selection=selection)), memory=memory) is None


def test_a_rejected_winner_is_not_kept(memory: Memory, gemm: KernelProblem) -> None:
    run = run_of(gemm, FAST)
    broken = replace(run.result.winner, verdicts=(Verdict(Status.OK, "legality"),))
    selection = replace(run.result.selection, winner=broken)
    assert remember(replace(run, result=replace(run.result, selection=selection)), memory=memory) is None


def test_only_runs_of_kernels_are_kept(memory: Memory, gemm: KernelProblem) -> None:
    run = replace(run_of(gemm, FAST), problem=TextProblem("letters", "a b c"))
    assert remember(run, memory=memory) is None


def test_finding_it_again_renews_it_and_keeps_what_the_user_said(memory: Memory, gemm: KernelProblem) -> None:
    old = kept(memory, gemm)
    memory.change(lambda entries: [replace(entry, note="mine", disabled=True) for entry in entries])
    later = NOW + timedelta(days=30)
    new = kept(memory, gemm, speedup=3.5, when=later)
    assert new.id == old.id
    (entry,) = memory.read().entries
    assert (entry.speedup, entry.created, entry.note, entry.disabled) == (3.5, later, "mine", True)


# -- to whom it is offered


def test_the_same_kernel_gets_the_schedule_with_its_source(memory: Memory, gemm: KernelProblem) -> None:
    entry = kept(memory, gemm)
    (hint,) = hints(gemm, HERE, NOW, memory=memory)
    assert hint == Hint(FAST, hint.source, entry.id)
    for part in ("the same kernel", "gemm at ni=60, nj=70, nk=80, 2 threads", "3.00x (95% interval 2.90 to 3.10)"):
        assert part in hint.source
    assert "found on 2030-05-17 on a machine; expires on 2030-08-15" in hint.source


def test_a_renamed_kernel_gets_it_in_its_own_names(memory: Memory, gemm: KernelProblem, tmp_path: Path) -> None:
    kept(memory, gemm)
    (hint,) = hints(own_problem(tmp_path, RENAMED), HERE, NOW, memory=memory)
    assert hint.schedule == "distribute(r); tile(r_2=32, d=32, c_2=32); parallel(r_2_t)"
    assert "a kernel of the same structure, gemm" in hint.source


def test_a_kernel_with_the_same_loops_gets_it_last(memory: Memory, gemm: KernelProblem, tmp_path: Path) -> None:
    kept(memory, gemm, speedup=9.0)
    problem = own_problem(tmp_path, SAME_LOOPS)
    (hint,) = hints(problem, HERE, NOW, memory=memory)
    assert "same loops" in hint.source
    own = kept(memory, problem, "interchange(d, c_2)", speedup=1.5)
    found = hints(problem, HERE, NOW, memory=memory)
    assert [hint.entry for hint in found] == [own.id, hint.entry]


def test_an_illegal_hint_is_left_out(memory: Memory, gemm: KernelProblem, tmp_path: Path) -> None:
    """Rows that read the row before them have the loops of gemm, and may not run in parallel."""
    kept(memory, own_problem(tmp_path, RENAMED.replace("in range(rows)", "in range(1, rows)")), "parallel(r)")
    problem = own_problem(tmp_path, BACKWARDS)
    (entry,) = memory.read().entries
    assert structure_of(problem.nest).shape == entry.shape
    assert not problem.is_admissible(problem.parse("parallel(r)"))
    assert offered(memory, problem) == []


def test_a_forged_entry_of_the_same_kernel_is_judged_as_well(memory: Memory, gemm: KernelProblem) -> None:
    entry = kept(memory, gemm)
    for forged in ("parallel(k)", "finish()", "#", "reverse(i); reverse(i)"):
        memory.add(replace(entry, schedule=forged, speedup=40.0))
    assert len(memory.read().entries) == 5
    assert offered(memory, gemm) == [FAST]


def test_a_recurrence_does_not_take_the_schedule_of_a_stream(memory: Memory, tmp_path: Path) -> None:
    stream = own_problem(tmp_path, RECURRENCE.format(name="stream", read="x[i - 1]"), "stream", n=100)
    recurrence = own_problem(tmp_path, RECURRENCE.format(name="recurrence", read="y[i - 1]"), "recurrence", n=100)
    kept(memory, stream, "parallel(i)")
    assert offered(memory, stream) == ["parallel(i)"]
    assert offered(memory, recurrence) == []


def test_another_kernel_gets_nothing(memory: Memory, gemm: KernelProblem) -> None:
    kept(memory, gemm)
    assert offered(memory, KernelProblem.load("matmul", "mini")) == []


def test_other_machines_expired_and_disabled_entries_are_no_hints(memory: Memory, gemm: KernelProblem) -> None:
    kept(memory, gemm, machine=ELSEWHERE)
    assert offered(memory, gemm) == []
    kept(memory, gemm)
    assert offered(memory, gemm) == [FAST]
    assert offered(memory, gemm, NOW + timedelta(days=90)) == []
    memory.change(lambda entries: [replace(entry, disabled=True) for entry in entries])
    assert offered(memory, gemm) == []


def test_the_best_come_first_and_no_more_than_asked_for(memory: Memory, gemm: KernelProblem) -> None:
    for number, speedup in enumerate((2.0, 5.0, 3.0, 4.0)):
        kept(memory, gemm, f"distribute(i); tile(i_2={8 << number}, k=32)", speedup=speedup)
    assert [text.split("i_2=")[1].split(",")[0] for text in offered(memory, gemm)] == ["16", "64", "32"]
    assert len(offered(memory, gemm, most=1)) == 1
    assert len(offered(memory, gemm, most=9)) == 4


def test_the_size_at_hand_comes_before_a_larger_speedup(memory: Memory, gemm: KernelProblem) -> None:
    kept(memory, KernelProblem.load("gemm", "mini", threads=2), "interchange(k, j_2)", speedup=8.0)
    kept(memory, gemm, speedup=2.0)
    assert offered(memory, gemm) == [FAST, "interchange(k, j_2)"]


def test_two_texts_of_one_schedule_are_one_hint(memory: Memory, gemm: KernelProblem) -> None:
    kept(memory, gemm, "tile(i=32); parallel(i_t)")
    kept(memory, gemm, "tile(i=32); parallel(i_t); reverse(k); reverse(k)")
    assert len(offered(memory, gemm)) == 1


# -- structure and patterns


@pytest.mark.parametrize(
    "kernel", ["adi", "correlation", "deriche", "layernorm", "lu", "mttkrp", "nussinov", "seidel-2d"]
)
def test_the_structure_of_a_kernel_is_that_under_any_names(kernel: str, tmp_path: Path) -> None:
    """Also under names of another alphabetical order."""
    nest, module = KernelProblem.load(kernel, "mini").nest, catalog.load(kernel)
    loops = [re.sub(r"_\d+$", "", loop.name) for loop in nest.loops]
    names = sorted({*(a.name for a in (*nest.arguments, *nest.arrays)), *nest.parameters, *loops})
    other = {name: f"q{500 - number}x" for number, name in enumerate(names)}
    source = inspect.getsource(module).split("def make_inputs")[0]
    path = tmp_path / "kernel.py"
    path.write_text(re.sub(r"[A-Za-z_]\w*", lambda match: other.get(match[0], match[0]), source), encoding="utf-8")
    renamed = nest_of_file(f"{path}:{catalog.entry(kernel).function}")
    assert renamed.digest != nest.digest
    own, ours = structure_of(renamed), structure_of(nest)
    assert (own.structure, own.shape) == (ours.structure, ours.shape)


def test_no_two_kernels_have_one_structure_but_for_their_types() -> None:
    names: dict[str, list[str]] = {}
    for kernel in catalog.names():
        names.setdefault(structure_of(KernelProblem.load(kernel, "mini").nest).structure, []).append(kernel)
    assert [alike for alike in names.values() if len(alike) > 1] == [["matmul", "matmul-float32"]]


def test_names_and_the_order_of_arguments_do_not_change_the_structure(gemm: KernelProblem, tmp_path: Path) -> None:
    own, ours = structure_of(own_problem(tmp_path, RENAMED).nest), structure_of(gemm.nest)
    assert (own.structure, own.shape) == (ours.structure, ours.shape)
    assert own.places == {"S0": "statement0", "S1": "statement1", "rows": "size0", "columns": "size1", "depth": "size2"}


@pytest.mark.parametrize(
    ("source", "changed"),
    [
        (SAME_LOOPS, {"structure"}),
        (RENAMED.replace("right[d, c]", "right[d, c - 1 + 1]"), set[str]()),
        (
            RENAMED.replace(
                "for c in range(columns):\n            out", "for c in range(1, columns):\n            out"
            ),
            {"structure", "shape"},
        ),
        (RENAMED.replace("*= 0.5", "= 0.0"), {"structure"}),
        (RENAMED.replace("in range(rows)", "in range(rows - 1, -1, -1)"), {"structure", "shape"}),
    ],
    ids=["commuted", "subscript written otherwise", "bound", "write only", "backwards"],
)
def test_what_the_structure_tells_apart(gemm: KernelProblem, tmp_path: Path, source: str, changed: set[str]) -> None:
    own, ours = structure_of(own_problem(tmp_path, source).nest), structure_of(gemm.nest)
    assert {name for name in ("structure", "shape") if getattr(own, name) != getattr(ours, name)} == changed


@pytest.mark.parametrize(
    ("schedule", "pattern", "renamed"),
    [
        ("tile(i=32); parallel(i_t)", "tile(loop0=32); parallel(loop0)", "tile(r=32); parallel(r_t)"),
        ("interchange(k, j_2)", "interchange(loop2, loop3)", "interchange(d, c_2)"),
        ("fuse(j, k)", "fuse(loop1, loop2)", "fuse(c, d)"),
        ("shift(S1, i, 2*nk + 1)", "shift(statement1, loop0, 2*size2 + 1)", "shift(S1, r, 2*depth + 1)"),
        ("split(j_2, at=nj - k//2)", "split(loop3, at=size1 - (loop2//2))", "split(c_2, at=columns - (d//2))"),
        ("skew(j_2, by=k, factor=-1)", "skew(loop3, by=loop2, factor=-1)", "skew(c_2, by=d, factor=-1)"),
        ("reorder_statements(k, S0)", "reorder_statements(loop2, statement0)", "reorder_statements(d, S0)"),
        ("autoschedule(fuse=none)", "autoschedule(fuse=none)", "autoschedule(fuse=none)"),
        ("unroll(j_2, 4)", "unroll(loop3, 4)", "unroll(c_2, 4)"),
    ],
)
def test_steps_by_place(gemm: KernelProblem, tmp_path: Path, schedule: str, pattern: str, renamed: str) -> None:
    nest, own = gemm.nest, own_problem(tmp_path, RENAMED).nest
    found = pattern_of(nest, structure_of(nest), parse_schedule(schedule))
    assert found == pattern
    assert str(schedule_of(own, structure_of(own), found)) == renamed
    assert str(schedule_of(nest, structure_of(nest), found)) == str(parse_schedule(schedule))


@pytest.mark.parametrize("kernel", ["gemm", "lu", "jacobi-2d", "syrk"])
def test_every_template_survives_its_pattern(kernel: str) -> None:
    problem = KernelProblem.load(kernel, "mini", threads=2)
    nest, structure = problem.nest, structure_of(problem.nest)
    templates = problem.templates()
    assert templates
    for schedule in templates:
        assert schedule_of(nest, structure, pattern_of(nest, structure, schedule)) == schedule


def test_a_pattern_that_fits_no_loop_is_refused(gemm: KernelProblem) -> None:
    with pytest.raises(StepError, match="names loop9, which is not there"):
        schedule_of(gemm.nest, structure_of(gemm.nest), "parallel(loop9)")


def test_likeness_has_words() -> None:
    assert len({like.words for like in Likeness}) == 3


# -- the file


def test_a_damaged_line_is_told_put_aside_and_costs_nothing_else(memory: Memory, gemm: KernelProblem) -> None:
    first = kept(memory, gemm)
    damaged = ['{"kernel": "gemm"', "[]", json.dumps({**entry_to_json(first), "speedup": float("nan")})]
    with memory.path.open("a") as file:
        file.write("\n".join(damaged) + "\n")
    with memory.path.open("ab") as file:
        file.write(b"\xff\xfe\n")
    contents = memory.read()
    assert contents.entries == (first,)
    assert [line.number for line in contents.damaged] == [2, 3, 4, 5]
    assert "speedup" in contents.damaged[2].problem
    second = kept(memory, gemm, "interchange(k, j_2)")
    assert memory.read().entries == (first, second)
    assert memory.read().damaged == ()
    assert memory.aside.read_bytes() == ("\n".join(damaged) + "\n").encode() + b"\xff\xfe\n"


def test_a_torn_last_line_is_only_that(memory: Memory, gemm: KernelProblem) -> None:
    first = kept(memory, gemm)
    kept(memory, gemm, "interchange(k, j_2)")
    memory.path.write_bytes(memory.path.read_bytes()[:-20])
    assert memory.read().entries == (first,)
    assert len(memory.read().damaged) == 1


def test_an_entry_is_its_json(memory: Memory, gemm: KernelProblem) -> None:
    entry = kept(memory, gemm)
    data = entry_to_json(entry)
    assert entry_from_json(json.loads(json.dumps(data))) == entry
    for field, wrong in [
        ("kernel", "two\nlines"),
        ("note", "\x1b[31m"),
        ("schedule", ""),
        ("machine", "x"),
        ("created", "2030-05-17T12:00:00"),
        ("interval", [1.0]),
        ("threads", 0),
        ("format", 2),
    ]:
        with pytest.raises(ValueError, match=field):
            entry_from_json({**data, field: wrong})


def test_two_processes_write_at_once(memory: Memory, gemm: KernelProblem) -> None:
    kept(memory, gemm)
    script = (
        "import sys\n"
        "from dataclasses import replace\n"
        "from pathlib import Path\n"
        "from optimizer.memory.store import Memory\n"
        "memory = Memory(Path(sys.argv[1]))\n"
        "entry = memory.read().entries[0]\n"
        "for number in range(30):\n"
        "    memory.add(replace(entry, threads=int(sys.argv[2]) + number))\n"
    )
    writers = [
        subprocess.Popen([sys.executable, "-c", script, str(memory.path), first], cwd=ROOT) for first in ("100", "200")
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0]
    assert {entry.threads for entry in memory.read().entries} == {2, *range(100, 130), *range(200, 230)}
    assert memory.read().damaged == ()


def test_a_memory_that_cannot_be_used_is_told(tmp_path: Path, gemm: KernelProblem) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot write"):
        kept(Memory(tmp_path / "file" / "memory.jsonl"), gemm)
    with pytest.raises(UserError, match="cannot read"):
        Memory(tmp_path).read()


# -- the commands


def invoke(*arguments: str, answer: str = "") -> Result:
    return CliRunner().invoke(main, ("memory", *arguments), input=answer)


def works(*arguments: str, answer: str = "") -> Result:
    result = invoke(*arguments, answer=answer)
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def test_list(home: Memory, gemm: KernelProblem) -> None:
    assert works("list").stdout == ""
    mine = kept(home, gemm, machine=this_machine().digest)
    other = kept(home, gemm, machine=ELSEWHERE, speedup=2.0)
    lines = works("list").stdout.splitlines()
    assert [line.split()[:2] for line in lines[1:]] == [[mine.id, "gemm"], [other.id, "gemm"]]
    assert "usable" in lines[1]
    assert "other machine" in lines[2]
    data = json.loads(works("list", "--json").stdout)
    assert [(entry["id"], entry["state"]) for entry in data] == [(mine.id, "usable"), (other.id, "other machine")]
    assert data[0]["schedule"] == FAST


def test_list_tells_of_damaged_lines_and_goes_on(home: Memory, gemm: KernelProblem) -> None:
    kept(home, gemm)
    with home.path.open("a") as file:
        file.write("{\n")
    result = works("list", "--json")
    assert len(json.loads(result.stdout)) == 1
    assert f"{home.path}:2 is damaged" in result.stderr
    assert str(home.aside) in works("forget", "--all", "--yes").stderr


def test_show(home: Memory, gemm: KernelProblem) -> None:
    entry = kept(home, gemm)
    text = works("show", entry.id[:5]).stdout
    for part in (FAST, entry.pattern, "3.00x (95% interval 2.90 to 3.10)", "a machine", "expires on 2030-08-15"):
        assert part in text
    assert json.loads(works("show", entry.id, "--json").stdout)["pattern"] == entry.pattern


def test_edit(home: Memory, gemm: KernelProblem) -> None:
    entry = kept(home, gemm)
    works("edit", entry.id, "--note", "with turbo off", "--expires", "2031-01-31", "--disable")
    (edited,) = home.read().entries
    assert edited == replace(
        entry, note="with turbo off", expires=datetime(2031, 1, 31, 23, 59, 59, tzinfo=UTC), disabled=True
    )
    works("edit", entry.id, "--enable", "--note", "", "--expires", "10")
    (edited,) = home.read().entries
    assert (edited.note, edited.disabled) == ("", False)
    assert timedelta(days=9) < edited.expires - datetime.now(UTC) <= timedelta(days=10)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("show", "ffffffff"), "no entry has the id 'ffffffff'"),
        (("show", ""), "no entry has the id ''"),
        (("edit", "ID"), "nothing to change"),
        (("edit", "ID", "--expires", "soon"), "cannot read --expires soon"),
        (("edit", "ID", "--expires", "99999999999"), "cannot read --expires 99999999999"),
        (("edit", "ID", "--note", "x" * 3000), "note: String should have at most 2000 characters"),
        (("forget",), "say what to forget"),
        (("forget", "ID", "--all"), "say what to forget"),
        (("forget", "--kernel", "lu"), "nothing is remembered of 'lu'"),
        (("import", "nowhere.json"), "cannot read nowhere.json"),
        (("export", "/proc/nowhere.json"), "cannot write /proc/nowhere.json"),
    ],
)
def test_mistakes_are_told(home: Memory, gemm: KernelProblem, arguments: tuple[str, ...], message: str) -> None:
    entry = kept(home, gemm)
    result = invoke(*(entry.id if argument == "ID" else argument for argument in arguments))
    assert result.exit_code == 2, result.exception
    assert message in result.stderr
    assert home.read().entries == (entry,)


def test_forget(home: Memory, gemm: KernelProblem) -> None:
    one, two = kept(home, gemm), kept(home, gemm, "interchange(k, j_2)")
    assert invoke("forget", one.id, answer="n\n").exit_code == 1
    assert len(home.read().entries) == 2
    works("forget", one.id, answer="y\n")
    assert home.read().entries == (two,)
    kept(home, KernelProblem.load("lu", "mini"), "tile(i=8)")
    works("forget", "--kernel", "gemm", "--yes")
    assert [entry.kernel for entry in home.read().entries] == ["lu"]
    works("forget", "--all", "--yes")
    assert home.read().entries == ()


def test_export_and_import(home: Memory, gemm: KernelProblem, tmp_path: Path) -> None:
    entries = [kept(home, gemm, machine=this_machine().digest), kept(home, gemm, machine=ELSEWHERE)]
    file = tmp_path / "memory.json"
    assert "2 entries" in works("export", str(file)).stdout
    works("forget", entries[0].id, "--yes")
    assert "1 entry added, 0 of them of other machines; 1 known before" in works("import", str(file)).stdout
    works("forget", "--all", "--yes")
    assert "2 entries added, 1 of them of other machines; 0 known before" in works("import", str(file)).stdout
    assert list(home.read().entries) == entries


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is no JSON"),
        ("[" * 100_000, "is no JSON"),
        ("[]", "is no export of a memory"),
        ('{"entries": 3}', "is no export of a memory"),
        ('{"entries": [{"kernel": "gemm"}]}', "entry 1: nest: Field required; nothing was added"),
        ('{"entries": [3]}', "entry 1: "),
    ],
)
def test_a_file_that_is_no_export_adds_nothing(home: Memory, tmp_path: Path, content: str, message: str) -> None:
    file = tmp_path / "memory.json"
    file.write_text(content)
    result = invoke("import", str(file))
    assert result.exit_code == 2, result.exception
    assert message in result.stderr
    assert not home.path.exists()


def test_a_candidate_of_the_hint_is_the_one_remembered(memory: Memory, gemm: KernelProblem) -> None:
    kept(memory, gemm)
    (text,) = offered(memory, gemm)
    assert gemm.parse(text) == Candidate(FAST, gemm.parse(FAST).digest)
