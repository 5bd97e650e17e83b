"""Readers and writers that say what to do if they come to a Python without this package."""

from __future__ import annotations

import pickle
from types import FunctionType
from typing import Any


def unpack(data: bytes) -> Any:
    """Return the object in `data`. Raises ModuleNotFoundError, which says what to install, and
    where.

    It is sent as code, not by its name: it must work where this module is missing. So it uses
    nothing from outside of it.
    """
    import pickle  # noqa: PLC0415
    import socket  # noqa: PLC0415
    import sys  # noqa: PLC0415

    try:
        kind, state = pickle.loads(data)
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        raise ModuleNotFoundError(
            f"the executor's Python, {sys.executable} on {socket.gethostname()}, lacks "
            f"{package}: run pip install 'mq-server[spark]' for it, or set PYSPARK_PYTHON, "
            "before the session is made, to a Python that has it on each host",
            name=package,
        ) from None
    made = kind.__new__(kind)
    made.__dict__.update(state)
    return made


_SENT = FunctionType(unpack.__code__, {}, "unpack")
_SENT.__module__ = "__main__"
"""cloudpickle sends functions of this module as code, and those of other modules by name."""


class Portable:
    """An object that Spark sends from the driver to its executors."""

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return _SENT, (pickle.dumps((type(self), self.__dict__)),)
