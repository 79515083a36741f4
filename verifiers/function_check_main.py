"""The child process of `function_check`: call a user's function once and answer on a private pipe.

Run as `function_check_main.py FILE FUNCTION PIPE`; standard input holds a JSON object with `nonce` and, unless only the
set-up is to be tried, `text`. It stands alone: nothing of ours is imported into the process of the user's code.
"""

import dataclasses
import importlib.util
import json
import numbers
import os
import sys
import traceback
from pathlib import Path
from typing import Any

NO_SETUP = "setup"
RAISED = "raised"
OUT_OF_MEMORY = "out_of_memory"
RESULT = "result"
LOADED = "loaded"


def main() -> None:
    file, function, pipe = sys.argv[1:]
    del sys.argv[1:]
    request = json.loads(sys.stdin.buffer.read())
    # The candidate must not find in it what makes an answer true; that is in no variable either from here on.
    os.truncate(0, 0)
    answer = json.dumps({"nonce": request.pop("nonce"), **_answer(file, function, request)})
    _write(int(pipe), len(answer).to_bytes(4, "big") + answer.encode("ascii"))


def _answer(file: str, function: str, request: dict[str, Any]) -> dict[str, Any]:
    try:
        check = _load(file, function)
    except BaseException as error:
        return {NO_SETUP: _explain(error)}
    if "text" not in request:
        return {RESULT: None, LOADED: _loaded_from(Path(file).parent)}
    try:
        return {RESULT: _plain(check(request["text"]))}
    except MemoryError:
        return {OUT_OF_MEMORY: "the check ran out of memory"}
    except SystemExit as error:
        return {RAISED: f"SystemExit: {error}"}
    except BaseException as error:
        return {RAISED: _explain(error)}


def _load(file: str, function: str) -> Any:
    sys.path[0] = str(Path(file).parent)
    spec = importlib.util.spec_from_file_location(Path(file).stem, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    # Compiled anew: what lies in a cache beside it may not be made of it.
    exec(compile(Path(file).read_bytes(), file, "exec"), vars(module))
    check = getattr(module, function, None)
    if not callable(check):
        names = [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]
        raise LookupError(f"there is no function {function} in it; there are: {', '.join(names) or 'none'}")
    return check


def _loaded_from(folder: Path) -> list[str]:
    """The files of the modules that came from the folder of the check."""
    files = [getattr(module, "__file__", None) for module in list(sys.modules.values())]
    return sorted({file for file in files if file and Path(file).is_relative_to(folder)})


def _plain(result: Any) -> Any:
    """A result as JSON; what cannot be a result is described."""
    if type(result).__module__ == "numpy":
        result = result.tolist()
    if isinstance(result, tuple | list):
        return [_plain(item) for item in result]
    if dataclasses.is_dataclass(result) and not isinstance(result, type):
        return dataclasses.asdict(result)
    if result is None or isinstance(result, bool | str | int):
        return result
    if isinstance(result, numbers.Real):
        return float(result)
    return {"type": type(result).__name__}


def _explain(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {error}"[:1000] + place


def _write(pipe: int, content: bytes) -> None:
    while content:
        content = content[os.write(pipe, content) :]


if __name__ == "__main__":
    main()
