"""The worker process: `python -m optimizer.measure.worker_main COMMANDS ANSWERS SHARED THREADS`, three inherited
descriptors and the most threads that candidates may use.

Started by `worker.Worker` only. Reads one command at a time and answers it; ends when the parent goes away.
"""

from __future__ import annotations

import gc
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from optimizer.errors import InfrastructureError
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.protocol import MessageReader, write_message


def main() -> None:
    commands, answers, shared, threads = (int(text) for text in sys.argv[1:])
    for descriptor in (commands, answers, shared):
        os.set_inheritable(descriptor, False)
    # Numba's performance hints concern people who write code, not searches.
    warnings.simplefilter("ignore")
    from optimizer.measure.session import Session

    # Garbage is collected after code was built, never in a request that is timed.
    gc.disable()
    session = Session(threads, shared)
    reader = MessageReader(commands)
    write_message(answers, {"ready": os.getpid()})
    while (command := reader.read()) is not None:
        write_message(answers, {"nonce": command["nonce"], **_answer(session.run, command)})


def _answer(run: Callable[[Mapping[str, Any]], Mapping[str, Any]], command: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": run(command)}
    except WorkerFailure as failure:
        return {"failure": {"reason": failure.reason.value, "detail": failure.detail}}
    except InfrastructureError as error:
        return {"trouble": str(error)}
    except MemoryError:
        return {"trouble": "the worker has no memory left for the inputs and outputs of this size"}
    except Exception:
        # A bug of the harness is reported as one; the parent makes an InfrastructureError of it, never a score.
        return {"trouble": traceback.format_exc()}


if __name__ == "__main__":
    main()
