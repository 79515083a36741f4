"""Remove a folder in which a program may have put anything. It stands alone: the guard of the sandbox runs it too."""

import os
import stat
from contextlib import suppress
from pathlib import Path


def remove_tree(root: Path) -> None:
    """Remove a folder with all that is in it, however deep and whatever its permissions; what cannot go stays.

    Folders are moved up into the root one after the other, so that no path becomes long and nothing is recursive, as
    it is in `shutil.rmtree`, which ends with a `RecursionError` a thousand folders deep. Links are not followed.
    """
    if root.is_symlink():
        root.unlink()
        return
    folders, number = [root], 0
    while folders:
        folder = folders.pop()
        with suppress(OSError):
            # Root needs none of this; anybody else may neither list nor empty a folder that was closed.
            folder.chmod(stat.S_IRWXU)
        for path in _entries(folder):
            with suppress(OSError):
                if not path.is_dir() or path.is_symlink():
                    path.unlink()
                    continue
                moved = path
                if folder != root:
                    number += 1
                    path.chmod(stat.S_IRWXU)
                    moved = path.rename(root / f"{number}-{os.urandom(8).hex()}")
                folders.append(moved)
        if folder != root:
            with suppress(OSError):
                folder.rmdir()
    with suppress(OSError):
        root.rmdir()


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
