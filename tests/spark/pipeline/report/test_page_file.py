"""The file of a page is the old one or the new one, whatever fails."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from mq.disk.files import Files
from mq.errors import CommandFailed, ExitCode
from pyspark_mq.pipeline.report.page_file import check_page_file, write_page
from tests.support.faults import raising


class FullDiskFiles(Files):
    """Files of which one call fails as on a full disk."""

    def __init__(self, failing: str) -> None:
        super().__init__()
        setattr(self, failing, raising(errno.ENOSPC))


def test_a_page_takes_the_place_of_the_one_before(tmp_path: Path) -> None:
    path = tmp_path / "report.html"

    for page in ("first, and long", "ä\ud800"):
        write_page(path, page, Files())
        assert path.read_bytes() == page.encode("utf-8", "replace")

    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_page_goes_to_where_a_link_leads(tmp_path: Path) -> None:
    (tmp_path / "link.html").symlink_to("there.html")

    write_page(tmp_path / "link.html", "page", Files())

    assert (tmp_path / "link.html").is_symlink()
    assert (tmp_path / "there.html").read_text() == "page"


@pytest.mark.parametrize("is_linked", [False, True])
def test_a_page_replaces_no_device(tmp_path: Path, is_linked: bool) -> None:
    """The user root could replace /dev/null for everyone."""
    device = tmp_path / "null"
    os.mkfifo(device)
    named = tmp_path / "link" if is_linked else device
    if is_linked:
        named.symlink_to(device)

    with pytest.raises(CommandFailed, match="is a device or the like") as refused:
        check_page_file(named)

    assert refused.value.exit_code is ExitCode.USAGE


@pytest.mark.parametrize("failing", ["open_unnamed", "write", "sync", "link", "replace"])
def test_a_page_that_cannot_be_written_leaves_the_old_one(tmp_path: Path, failing: str) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    with pytest.raises(CommandFailed, match=r"report.html was not written, .*: No space") as found:
        write_page(path, "new", FullDiskFiles(failing))

    assert found.value.exit_code is ExitCode.ROOT
    assert path.read_text() == "old"
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


@pytest.mark.parametrize(
    ("name", "text"),
    [("", "is a folder; name a file in it"), ("missing/x.html", "there is no folder .*/missing")],
)
def test_a_place_where_no_page_can_be_is_refused_before_the_work(
    tmp_path: Path, name: str, text: str
) -> None:
    with pytest.raises(CommandFailed, match=text):
        check_page_file(tmp_path / name)
