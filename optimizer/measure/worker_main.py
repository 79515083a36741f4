"""The worker process: `python -m optimizer.measure.worker_main COMMANDS ANSWERS THREADS`, two inherited descriptors
and the most threads that candidates may use.

Started by `worker.Worker` only. Reads one command at a time and answers it; ends when the parent goes away.
"""

from __future__ import annotations

import os
import resource
import sys
import traceback
import warnings
from collections.abc import Callable, Mapping
from typing import Any

from optimizer.errors import InfrastructureError, UserError
from optimizer.measure.failure import WorkerFailure
from optimizer.measure.protocol import MessageReader, write_message

LARGEST_FILE = 64 * 2**20
"""Bytes of the largest file that a candidate may write, its output in the log included."""


def main() -> None:
    commands, answers, threads = (int(text) for text in sys.argv[1:])
    for descriptor in (commands, answers):
        os.set_inheritable(descriptor, False)
    resource.setrlimit(resource.RLIMIT_FSIZE, (LARGEST_FILE, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
    # Numba's performance hints concern people who write code, not searches.
    warnings.simplefilter("ignore")
    from optimizer.measure.session import Session

    session = Session(threads)
    reader = MessageReader(commands)
    write_message(answers, {"ready": os.getpid()})
    while (command := reader.read()) is not None:
        number = command["number"]
        session.announce = lambda stage, number=number: write_message(answers, {"number": number, **stage})
        write_message(answers, {"number": number, **_answer(session.run, command)})


def _answer(run: Callable[[Mapping[str, Any]], Mapping[str, Any]], command: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return {"answer": run(command)}
    except WorkerFailure as failure:
        return {
            "failure": {
                "reason": failure.reason.value,
                "detail": failure.detail,
                "witness": failure.witness,
                "contestant": failure.contestant,
            }
        }
    except UserError as error:
        return {"user_error": str(error)}
    except InfrastructureError as error:
        return {"trouble": str(error)}
    except MemoryError:
        return {"trouble": "the worker has no memory left for the inputs and outputs of this size"}
    except Exception:
        # A bug of the harness is reported as one; the parent makes an InfrastructureError of it, never a score.
        return {"trouble": traceback.format_exc()}


if __name__ == "__main__":
    main()
