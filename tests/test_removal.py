"""Removing a folder: whatever is in it goes, and nothing else does."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from optimizer.removal import remove_tree


def test_whatever_is_in_it_goes(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "a" / "b").mkdir(parents=True)
    (root / "a" / "b" / "file").write_text("x")
    os.mkfifo(root / "a" / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(root / "socket"))
    (root / "a" / "b").chmod(0)
    (root / "a").chmod(0o500)
    for number in range(50):
        (root / f"file{number}").touch()
    remove_tree(root)
    assert not root.exists()


def test_links_are_not_followed(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    (kept / "file").write_text("x")
    root = tmp_path / "root"
    (root / "a").mkdir(parents=True)
    (root / "a" / "folder").symlink_to(kept)
    (root / "file").symlink_to(kept / "file")
    (root / "loop").symlink_to(root)
    remove_tree(root)
    assert not root.exists()
    assert (kept / "file").read_text() == "x"
    (tmp_path / "link").symlink_to(kept)
    remove_tree(tmp_path / "nothing")
    assert (kept / "file").read_text() == "x"


def test_three_thousand_folders_within_each_other(tmp_path: Path) -> None:
    before = Path.cwd()
    root = tmp_path / "root"
    root.mkdir()
    try:
        os.chdir(root)
        for _ in range(3000):
            os.mkdir("folder")  # noqa: PTH102
            os.chdir("folder")
        Path("file").write_text("x")
    finally:
        os.chdir(before)
    remove_tree(root)
    assert not root.exists()
