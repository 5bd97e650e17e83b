"""Makes what a wheel has beside the source: the native part, man pages and completion.

It compiles the native part of file calls, mq/disk/native.c, if this machine can.

The compiler is that of the variable CC, else the one that Python was made with. Without one, or the
headers of Python, MQ is installed as pure Python: it does the same, more slowly. A wheel with the
native part fits every Python from 3.11 on; one without it fits every machine.

manuals.py writes the man pages and what shells load, from the definitions of the commands. Where
their imports are missing, in a build without isolation, the wheel goes without them.
"""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = Path("mq", "disk", "native.c")
MODULE = Path("mq", "disk", "_native.abi3.so")
TAG = "cp311-abi3"
FLAGS = ("-O2", "-Wall", "-Wextra", "-shared", "-fPIC")


class WheelBuildHook(BuildHookInterface[Any]):
    """Called by hatchling for each wheel; an editable install uses what is compiled in place."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        root = Path(self.root)
        if version == "editable":
            self._compile(root, root / MODULE)
            return
        self._folder = tempfile.TemporaryDirectory()
        target = Path(self._folder.name) / MODULE.name
        if self._compile(root, target):
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"{TAG}-{platform}"
            build_data["force_include"][str(target)] = str(MODULE)
        self._add_manuals(root, build_data)

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        if version != "editable":
            self._folder.cleanup()

    def _add_manuals(self, root: Path, build_data: dict[str, Any]) -> None:
        made = Path(self._folder.name) / "manuals"
        command = [sys.executable, str(root / "manuals.py"), str(made)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
        if done.returncode:
            reason = done.stderr.strip().rpartition("\n")[2]
            self.app.display_warning(f"without man pages and completion: {reason}")
            return
        for path in sorted(made.rglob("*")):
            if path.is_file():
                build_data["shared_data"][str(path)] = str(path.relative_to(made))

    def _compile(self, root: Path, target: Path) -> bool:
        failure = compile_native(root / SOURCE, target)
        if failure:
            self.app.display_warning(f"without the native part, which is optional: {failure}")
        return not failure


def compile_native(source: Path, target: Path) -> str:
    """Why it did not work; empty if it did. `target` is replaced as a whole: a server may have the
    one before in use."""
    compiler = shlex.split(os.environ.get("CC") or sysconfig.get_config_var("CC") or "cc")
    include = sysconfig.get_paths()["include"]
    made = target.with_name(f"{target.name}.new")
    command = [*compiler, *FLAGS, f"-I{include}", str(source), "-o", str(made)]
    try:
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    except OSError as error:
        return f"{compiler[0]}: {error.strerror}"
    if done.returncode:
        return f"{shlex.join(command)}\n{done.stderr.strip()}"
    made.replace(target)
    return ""


if __name__ == "__main__":
    here = Path(__file__).parent
    sys.exit(compile_native(here / SOURCE, here / MODULE))
