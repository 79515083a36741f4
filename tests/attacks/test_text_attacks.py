"""A schedule, a kernel's source or a message that means more than it says: to a parser, the back end or a terminal."""

from __future__ import annotations

import io
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from optimizer.budget import Amounts, BudgetView, Ledger, Limits
from optimizer.candidate import Candidate
from optimizer.cli.live import PlainLines, lines_of, render
from optimizer.cli.output import tell
from optimizer.cli.progress import Progress
from optimizer.errors import UserError
from optimizer.events import ChainStopped, Event, RunStarted, TrialFinished, TrialStarted, Waiting
from optimizer.journal import Journal
from optimizer.judging import judge, read_candidate
from optimizer.kernel_problem import KernelProblem
from optimizer.loop import run_loop
from optimizer.plan import Plan, StopReason
from optimizer.polyhedral import legality
from optimizer.polyhedral.frontend import nest_of_file, nest_of_source
from optimizer.polyhedral.schedule import parse_schedule
from optimizer.trial import Trial
from optimizer.verdict import Reason, Status, Verdict
from tests.fakes import ListPolicy
from tests.model_runs import Timing
from tests.test_codegen import assert_same_results, scheduled
from verifiers.legality import Legality


@pytest.fixture(scope="module")
def matmul() -> KernelProblem:
    return KernelProblem.load("matmul", "mini", threads=2)


def verdict_of(problem: KernelProblem, text: str) -> Verdict:
    candidate, rejection = read_candidate(problem, text)
    return rejection or judge(problem, candidate, [Legality()])[-1]


def test_control_an_honest_schedule_is_proved(matmul: KernelProblem) -> None:
    assert verdict_of(matmul, "interchange(j, k)").assurance == "proved"


SMUGGLED = {
    "a letter of another alphabet": ("interchange(і, k)", Reason.INVALID_STEP),
    "a letter of full width": ("interchange(ｊ, k)", Reason.INVALID_STEP),
    "digits of another alphabet": ("tile(i=３２)", Reason.UNPARSABLE),
    "a separator of lines": ("interchange(j, k)\u2028parallel(k)", Reason.UNPARSABLE),
    "a mark that turns the reading around": ("interchange(j, k)\u202e", Reason.UNPARSABLE),
    "a space without width": ("inter\u200bchange(j, k)", Reason.UNPARSABLE),
    "a null": ("interchange(j, k)\0", Reason.UNPARSABLE),
    "half a character": ("interchange(j, k)\ud800", Reason.UNPARSABLE),
    "Python": ("__import__('os').abort()", Reason.UNPARSABLE),
    "a format": ("tile(i={n})", Reason.UNPARSABLE),
    "a loop called __class__": ("parallel(__class__)", Reason.INVALID_STEP),
    "a step called __init__": ("__init__(i)", Reason.INVALID_STEP),
    "a number as a truth value": ("tile(i=True)", Reason.INVALID_STEP),
    "a number of five thousand digits": (f"tile(i={'9' * 5000})", Reason.UNPARSABLE),
    "a number above 64 bits": (f"shift(i, by={2**64})", Reason.UNPARSABLE),
    "a negative tile": ("tile(i=-4)", Reason.INVALID_STEP),
    "ten thousand steps": ("reverse(i);" * 10_000, Reason.UNPARSABLE),
    "two hundred and one steps": ("reverse(i);" * 201, Reason.UNPARSABLE),
    "a thousand parentheses": (f"tile(i={'(' * 1000}4{')' * 1000})", Reason.UNPARSABLE),
    "parentheses without end": ("tile(i=" + "(" * 10_000, Reason.UNPARSABLE),
    "a megabyte": ("x" * 10**6, Reason.UNPARSABLE),
    "trees that grow without end": ("distribute(i);" + "; ".join(["tile(i=2)"] * 150), Reason.INVALID_STEP),
}


@pytest.mark.parametrize("attack", SMUGGLED)
def test_a_schedule_says_no_more_than_its_grammar(matmul: KernelProblem, attack: str) -> None:
    text, reason = SMUGGLED[attack]
    start = time.monotonic()
    verdict = verdict_of(matmul, text)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, reason), verdict.detail
    assert time.monotonic() - start < 5
    assert len(verdict.detail) < 2000


ILLEGAL = {
    # Each: a kernel, and a schedule of it that keeps its promise only until another step.
    "a mark of parallel that an interchange carries to another loop": ("seidel-2d", "parallel(j); interchange(j, i)"),
    "a parallel loop that a tile turns into another one": ("floyd-warshall", "tile(k=4, i=8); parallel(k_t)"),
    "a reversed loop that is hidden by a tile": ("lu", "reverse(k); tile(k=4)"),
    "a reversed loop, parallel at once": ("trisolv", "reverse(j); parallel(i)"),
    "two loops joined that only write the same": ("write_twice", "fuse(i, i_2)"),
    "two loops joined of which one reads before the other writes": ("read_first", "fuse(i, i_2)"),
    "a parallel loop that only writes the same": ("last_one", "parallel(i)"),
}
SOURCES = """
import numpy as np
from jaxtyping import Float64

def write_twice(n: int, x: Float64[np.ndarray, "n"], a: Float64[np.ndarray, "n"]):
    for i in range(n):
        x[n - 1 - i] = a[i]
    for i in range(n):
        x[i] = 2.0 * a[i]

def read_first(n: int, x: Float64[np.ndarray, "n"], a: Float64[np.ndarray, "n"]):
    for i in range(n):
        a[i] = x[n - 1 - i]
    for i in range(n):
        x[i] = 2.0

def last_one(n: int, x: Float64[np.ndarray, "n"], a: Float64[np.ndarray, "n"]):
    for i in range(n):
        x[0] = a[i]
"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sources") / "sources.py"
    path.write_text(SOURCES)
    return path


@pytest.mark.parametrize("attack", ILLEGAL)
def test_a_schedule_that_breaks_a_dependence_is_found_out(attack: str, sources: Path) -> None:
    kernel, schedule = ILLEGAL[attack]
    name, size = (f"{sources}:{kernel}", "n=20") if kernel.isidentifier() and "_" in kernel else (kernel, "mini")
    problem = KernelProblem.load(name, {"n": 20} if size == "n=20" else size, threads=2)
    verdict = verdict_of(problem, schedule)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.ILLEGAL), verdict.detail
    assert verdict.witness is not None
    assert verdict.measurement is None


def test_what_cannot_be_decided_is_not_accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    """A legal schedule, and an engine that gives up before it knows."""
    schedule = "tile(i=32); autoschedule()"
    assert verdict_of(KernelProblem.load("lu", "mini", threads=2), schedule).status is Status.OK
    honest = legality.judge
    monkeypatch.setattr("optimizer.kernel_problem.judge", lambda model, tree: honest(model, tree, limit=10))
    verdict = verdict_of(KernelProblem.load("lu", "mini", threads=2), schedule)
    assert (verdict.status, verdict.reason) == (Status.REJECTED, Reason.UNKNOWN_LEGALITY)


def test_other_spellings_of_one_schedule_are_paid_once(matmul: KernelProblem, tmp_path: Path) -> None:
    spellings = [
        "tile(i=4, j=8)",
        "tile( i = 4 ,j=8 )  # another one",
        "tile(i=2 + 2, j=8);",
        "\ntile(i=4,\n j=8)\n",
        "reverse(i); reverse(i); tile(i=4, j=8)",
        "interchange(j, k); interchange(k, j); tile(i=4, j=8)",
        "",
        "# the original",
        "reverse(k); reverse(k)",
    ]
    timing = Timing()
    with Journal(tmp_path) as journal:
        plan = Plan(steps=len(spellings))
        policies = [ListPolicy(texts=spellings)]
        result = run_loop(matmul, policies, [Legality(), timing], plan, Ledger(Limits()), journal)
    assert result.outcomes == {"duplicate": 8, "ok": 1}
    assert (result.used.evaluations, timing.seen) == (1, ["tile(i=4, j=8)"])


HEADER = "import numpy as np\nfrom jaxtyping import Float64\n"
SIGNATURE = 'def f(n: int, x: Float64[np.ndarray, "n"], y: Float64[np.ndarray, "n n"]):\n'
BODY = "    for i in range(n):\n        for j in range(n):\n            x[i] += y[i, j] * 2.0\n"
RUNS = "__import__('pathlib').Path({note!r}).touch()"
EXECUTED = {
    "a statement of the module": HEADER + RUNS + "\n" + SIGNATURE + BODY,
    "an import of a module beside it": "import evil\n" + HEADER + SIGNATURE + BODY,
    "a decorator": HEADER + "@(" + RUNS + ")\n" + SIGNATURE + BODY,
    "a default": HEADER + SIGNATURE.replace("):", ", k=" + RUNS + "):") + BODY,
    "an annotation": HEADER + SIGNATURE.replace('"n n"', RUNS) + BODY,
    "an expression of the body": HEADER + SIGNATURE + BODY.replace("2.0", RUNS),
    "a call for its effect": HEADER + SIGNATURE + "    " + RUNS + "\n" + BODY,
    "eval": HEADER + SIGNATURE + BODY.replace("2.0", "eval({code!r})"),
    "a class body": HEADER + "class C:\n    " + RUNS + "\n" + SIGNATURE + BODY,
}


@pytest.mark.parametrize("source", EXECUTED.values(), ids=EXECUTED)
def test_reading_a_kernel_runs_nothing_of_it(source: str, tmp_path: Path) -> None:
    note = tmp_path / "ran"
    code = RUNS.format(note=str(note))
    (tmp_path / "evil.py").write_text(code)
    (tmp_path / "k.py").write_text(source.format(note=str(note), code=code))
    with suppress(UserError):
        nest = nest_of_file(f"{tmp_path / 'k.py'}:f")
        assert scheduled(nest, "tile(i=4)")
    assert not note.exists()


UNREADABLE = {
    "three thousand signs": BODY.replace("2.0", "-" * 3000 + "2.0"),
    "five thousand terms": BODY.replace("2.0", " + ".join(["2.0"] * 5000)),
    "five hundred parentheses": BODY.replace("2.0", "(" * 500 + "2.0" + ")" * 500),
    "a null": BODY + "\0",
    "half a character": BODY + "    # \ud800\n",
    "an attribute of an attribute": BODY.replace("2.0", "n.__class__.__base__"),
    "an assignment in an expression": BODY.replace("2.0", "(n := 0)"),
    "a function of its own": BODY.replace("2.0", "(lambda: 2.0)()"),
    "a range of its own": BODY.replace("range(n)", "range(n) if n else ()"),
    "a global": "    global n\n" + BODY,
    "an exception": "    try:\n        pass\n    finally:\n        pass\n" + BODY,
}


@pytest.mark.parametrize("body", UNREADABLE.values(), ids=UNREADABLE)
def test_a_source_that_cannot_be_followed_is_one_message(body: str) -> None:
    with pytest.raises(UserError, match=r"k\.py"):
        nest_of_source(HEADER + SIGNATURE + body, "f", "k.py")


def test_a_range_with_another_meaning_is_refused() -> None:
    with pytest.raises(UserError, match="meaning of its own"):
        nest_of_source(HEADER + "def range(n): return [0]\n" + SIGNATURE + BODY, "f", "k.py")


def test_code_in_comments_and_texts_stays_there() -> None:
    body = '    "x[0] = 99.0"\n' + BODY.replace("2.0\n", "2.0  # ; x[0] = 99.0\n")
    source = scheduled(nest_of_source(HEADER + SIGNATURE + body, "f", "k.py"), "tile(i=4); parallel(i_t)")
    assert "99.0" not in source.rpartition("def f")[2]


TAKEN = ("np", "prange", "njit", "min", "at", "may_overlap", "ValueError", "i_t", "__class__", "match", "ﬁ")


@pytest.mark.parametrize("name", TAKEN)
def test_a_loop_called_like_something_of_ours_does_not_get_in_the_way(name: str) -> None:
    body = BODY.replace("for i in", f"for {name} in").replace("x[i]", f"x[{name}]").replace("y[i,", f"y[{name},")
    nest = nest_of_source(HEADER + SIGNATURE + body, "f", "k.py")
    loop = nest.loops[0].name
    tiled = parse_schedule(f"tile({loop}=4)").apply(nest)
    outer = str(getattr(tiled, "name", "")) or f"{loop}_t"
    for sizes in ({"n": 0}, {"n": 5}, {"n": 9}):
        assert_same_results(nest, scheduled(nest, f"tile({loop}=4); parallel({outer})"), sizes)


@pytest.mark.parametrize("name", ["np", "prange", "njit", "min"])
def test_an_argument_may_not_be_called_like_what_every_module_needs(name: str) -> None:
    source = (HEADER + SIGNATURE + BODY).replace("x[", f"{name}[").replace("x:", f"{name}:")
    with pytest.raises(UserError, match=r"cannot be the name of an argument|meaning of its own|not a type"):
        nest_of_source(source, "f", "k.py")


@pytest.mark.parametrize("name", ["at", "may_overlap", "address_range", "x_2", "i_t"])
def test_an_array_called_like_something_of_ours_does_not_get_in_the_way(name: str) -> None:
    source = (HEADER + SIGNATURE + BODY).replace("x[", f"{name}[").replace("x:", f"{name}:")
    source = source.replace("import numpy as np", "import numpy").replace("np.ndarray", "numpy.ndarray")
    nest = nest_of_source(source, "f", "k.py")
    assert_same_results(nest, scheduled(nest, "tile(i=4, j=4)"), {"n": 9})


def test_a_function_called_like_one_of_our_checks_stays_the_users() -> None:
    helper = "def address_range(v): return v * 3.0\n"
    nest = nest_of_source(HEADER + helper + SIGNATURE + BODY.replace("2.0", "address_range(2.0)"), "f", "k.py")
    assert_same_results(nest, scheduled(nest, "tile(i=4); parallel(i_t)"), {"n": 9})


ESCAPES = {
    "colours": "\x1b[31mred\x1b[0m",
    "the clipboard": "\x1b]52;c;ZXZpbA==\x07",
    "a cleared screen": "\x1b[2J\x1b[H",
    "a line taken back": "\rtrial 9  ok  1000000.00x",
    "controls of eight bits": "\x9b31m",
    "a mark that turns the reading around": "\u202e1e9",
    "backspaces": "1.00x" + "\b" * 5 + "9.99x",
}


def events(text: str) -> list[Event]:
    verdict = Verdict(Status.REJECTED, "check", Reason.FAILED_CHECK, text)
    trial = Trial(1, 0, 1, Candidate(text), (verdict,), rationale=text)
    return [
        RunStarted(text, Plan(), Limits(), (text,)),
        TrialStarted(1, 0, 1, Candidate(text)),
        TrialFinished(trial, BudgetView(Amounts(), Limits())),
        Waiting(text),
        ChainStopped(0, StopReason.GIVEN_UP),
    ]


@pytest.mark.parametrize("text", ESCAPES.values(), ids=ESCAPES)
def test_no_text_steers_the_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    for event in events(text):
        PlainLines().notify(event)
    tell(text)
    shown = "".join(capsys.readouterr())
    assert shown.count("\n") >= 3
    assert all(character.isprintable() or character == "\n" for character in shown)


@pytest.mark.parametrize("text", [*ESCAPES.values(), "[red]evil[/red]", "[link=https://evil]here[/link]", "[/]"])
def test_no_text_steers_the_live_table(text: str) -> None:
    from rich.console import Console

    progress = Progress()
    for event in events(text):
        progress.notify(event)
    output = io.StringIO()
    Console(file=output, force_terminal=False, width=120).print(render(progress))
    shown = output.getvalue()
    assert all(character.isprintable() or character == "\n" for character in shown)
    if text.startswith("["):
        assert text in shown


def test_a_trial_stays_on_its_line() -> None:
    forged = "7\ntrial 9  chain 0 step 1  ok  1000000.00x  7"
    trial = Trial(1, 0, 1, Candidate(forged), (Verdict(Status.REJECTED, "check", Reason.FAILED_CHECK, forged),))
    (line,) = lines_of(TrialFinished(trial, BudgetView(Amounts(), Limits())))
    assert "\n" not in line
    assert line.startswith("trial 1 ")


def test_a_lookalike_of_a_candidate_is_another_candidate(tmp_path: Path) -> None:
    """Texts are compared as they are: what looks alike is neither paid nor judged as the other one."""
    plain: Any = Candidate("score = 1")
    assert plain.digest != Candidate("score\u00a0= 1").digest
    assert replace(plain, text="x").digest == plain.digest
