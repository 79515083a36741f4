"""The table of results over kernels: what is written, kept, ranked and compared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from benchmarks.kernels import Peer, Row, markdown, near_best, peers_of, rows_of, write
from kernels import catalog

ROW = Row("gemm", "large", 2, 0.4, 0.02, 20.0, 19.0, 21.0, 20.5, 8, 2.5, 6711, "proved", "parallel(i)")


def test_rows_come_back_as_they_were_written(tmp_path: Path) -> None:
    rows = [replace(ROW, kernel="lu", schedule="tile(i=8, j=8); parallel(i_t)"), ROW]
    write(rows, tmp_path / "results" / "table.csv")
    assert list(rows_of(tmp_path / "results" / "table.csv").values()) == [ROW, rows[0]]


def test_no_file_has_no_rows(tmp_path: Path) -> None:
    assert rows_of(tmp_path / "table.csv") == {}


def test_the_kernel_with_the_most_left_comes_first() -> None:
    near, far = replace(ROW, kernel="near"), replace(ROW, kernel="far", speedup=5.0)
    peers = {"near": Peer("near", 3.0, "pluto", 4.0, 0.019), "far": Peer("far", 3.0, "polly", 6.0, 0.001)}
    text = markdown([near, far], peers)
    assert text.index("| far |") < text.index("| near |")
    assert "| 3.00x | 6.00x | 20.0 |" in text
    assert "Pluto: 3.00x. At least the best peer of each kernel on 1 of 2." in text
    assert "Geometric mean 10.00x" in text
    assert "2.5 s at the median" in text


def test_peers_are_known_for_all_of_polybench_at_large_alone() -> None:
    polybench = {name for name in catalog.names() if catalog.entry(name).suite == "polybench"}
    assert set(peers_of("large")) == polybench
    assert peers_of("medium") == {}


def test_runs_far_from_the_best_known_are_named() -> None:
    rows = [
        replace(ROW, kernel=name, speedup=speedup) for name, speedup in {"lu": 9.0, "atax": 4.0, "mvt": 8.0}.items()
    ]
    known = {name: replace(ROW, kernel=name, speedup=10.0) for name in ("lu", "atax")}
    assert near_best(rows, known) == "At least 90% of the best known on 1 of 2; less: atax 40%"
