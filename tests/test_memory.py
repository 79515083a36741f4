"""Memory across runs: what is kept of a run, to whom it is offered under which names, and the file."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from optimizer.candidate import Candidate
from optimizer.errors import UserError
from optimizer.kernel_problem import KernelProblem
from optimizer.memory.entry import entry_from_json, entry_to_json
from optimizer.memory.hints import Hint, Likeness, hints, remember
from optimizer.memory.store import Memory
from optimizer.memory.structure import structure_of
from optimizer.text_problem import TextProblem
from optimizer.verdict import Status, Verdict
from tests.remembered_runs import (
    BACKWARDS,
    ELSEWHERE,
    FAST,
    HERE,
    NOW,
    RECURRENCE,
    RENAMED,
    SAME_LOOPS,
    kept,
    own_problem,
    run_of,
)

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def gemm() -> KernelProblem:
    return KernelProblem.load("gemm", "small", threads=2)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "home" / "memory.jsonl")


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


def test_a_candidate_of_the_hint_is_the_one_remembered(memory: Memory, gemm: KernelProblem) -> None:
    kept(memory, gemm)
    (text,) = offered(memory, gemm)
    assert gemm.parse(text) == Candidate(FAST, gemm.parse(FAST).digest)


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
