"""Whether another process has the lock of a message."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.spool.message.in_use import NOT_LOCKED, try_locks
from tests.support.descriptors import count_open
from tests.support.faults import WatchedFiles
from tests.support.messages import write_message


@pytest.mark.parametrize("files", [Files(), WatchedFiles()], ids=["native", "python"])
def test_each_lock_is_tried_and_let_go(tmp_path: Path, files: Files) -> None:
    names = ["held", "free", "gone", "link"]
    for name in names[:2]:
        write_message(tmp_path / name)
    (tmp_path / "link").symlink_to(tmp_path / "free")
    folder = files.open_folder(None, str(tmp_path))
    with (tmp_path / "held").open() as holder:
        assert Files().lock(holder.fileno())
        before = count_open(tmp_path)

        codes = try_locks(files, folder, names)

        assert codes == [errno.EWOULDBLOCK, 0, errno.ENOENT, errno.ELOOP]
        assert [code in NOT_LOCKED for code in codes] == [False, True, True, True]
        assert count_open(tmp_path) == before
    assert try_locks(files, folder, names[:2]) == [0, 0]
    os.close(folder)
