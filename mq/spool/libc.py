"""Two system calls that Python lacks: renameat2(2) and syncfs(2). Both release the GIL."""

from __future__ import annotations

import ctypes

from mq.errors import ExitCode, StartRefused


def load_libc() -> ctypes.CDLL:
    """Raises StartRefused where there is no such thing."""
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.renameat2.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
        libc.syncfs.argtypes = (ctypes.c_int,)
    except (OSError, AttributeError) as error:
        raise StartRefused(
            ExitCode.SYSTEM, f"this system has no renameat2 and syncfs ({error}): MQ runs on Linux"
        ) from None
    return libc
