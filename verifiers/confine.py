"""Run as a script before another program in its place: `confine.py PARENT MEMORY FILE_SIZE PROGRAM ARGUMENT...`

Limits memory and the size of files, both in bytes, and ties the life of the program to that of its parent, as far as
the system can. It stands alone, so that it starts in a few milliseconds.
"""

import ctypes
import os
import resource
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, memory, file_size, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != int(parent):
            sys.exit("the parent process is gone")
    for limit, most in ((resource.RLIMIT_AS, int(memory)), (resource.RLIMIT_FSIZE, int(file_size))):
        hard = resource.getrlimit(limit)[1]
        value = most if hard == resource.RLIM_INFINITY else min(most, hard)
        # macOS refuses a limit on address space; the deadline is then the only guard.
        if sys.platform != "darwin" or limit != resource.RLIMIT_AS:
            resource.setrlimit(limit, (value, value))
    os.execv(command[0], command)


if __name__ == "__main__":
    main()
