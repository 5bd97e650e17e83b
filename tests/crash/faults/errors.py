"""The faults that the sweeps go through, each at every index."""

from __future__ import annotations

import errno

from tests.crash.faults.kernel import SHORT_WRITE, Fault

SHORT = [
    Fault(errno.EIO, lasts=False),
    Fault(errno.EIO, lasts=True),
    Fault(errno.ENOSPC, lasts=True),
    Fault(SHORT_WRITE, lasts=True),
]
_OTHERS = (errno.EMFILE, errno.EDQUOT, errno.EROFS, errno.ESTALE, errno.EINTR)
"""Python itself calls again after EINTR, so that only renameat2 and syncfs can ever return it;
here every call does."""

LONG = [Fault(code, lasts) for code in _OTHERS for lasts in (False, True)]
LONG += [Fault(errno.ENOSPC, lasts=False), Fault(SHORT_WRITE, lasts=False)]
FIRST_OF_LONG = LONG[0]
