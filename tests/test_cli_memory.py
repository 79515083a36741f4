"""`loopwright memory`: what is remembered, shown, edited, forgotten, exported and imported."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from optimizer.cli import main
from optimizer.kernel_problem import KernelProblem
from optimizer.measure.machine import this_machine
from optimizer.memory.store import Memory
from tests.remembered_runs import (
    ELSEWHERE,
    FAST,
    kept,
)


@pytest.fixture(scope="module")
def gemm() -> KernelProblem:
    return KernelProblem.load("gemm", "small", threads=2)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    """The memory that commands see."""
    monkeypatch.setenv("LOOPWRIGHT_HOME", str(tmp_path / "home"))
    return Memory()


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
