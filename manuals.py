"""Writes the man pages of all commands, and what shells load to complete their words.

    python manuals.py FOLDER

makes `share/man/man1` and so on below FOLDER. hatch_build.py puts them into each wheel, so there is
nothing to write again when a flag changes.
"""

from __future__ import annotations

import sys
from importlib import import_module
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).parent))

from mq import __version__  # noqa: E402
from mq.command.completion import SHELLS, completion_script  # noqa: E402
from mq.command.manual import man_page  # noqa: E402

COMMANDS = {
    "mq": "mq.daemon.cli:mq",
    "mq-mover": "mq_mover.cli:mq_mover",
    "mq-reaper": "mq_reaper.cli:mq_reaper",
    "mq-sqs": "mq_sqs.cli:mq_sqs",
    "mqctl": "mq.ctl.cli:mqctl",
    "mq-pipeline": "pyspark_mq.pipeline.cli:mq_pipeline",
    "vsqs": "vsqs.cli:vsqs",
    "vsqspump": "vsqs.pump:vsqspump",
    "vsqssink": "vsqs.sink:vsqssink",
}
"""Where each is defined."""

PLACES = {
    "bash": "share/bash-completion/completions/{}",
    "zsh": "share/zsh/site-functions/_{}",
    "fish": "share/fish/vendor_completions.d/{}.fish",
}


def write(folder: Path) -> None:
    for name, place in COMMANDS.items():
        module, _, attribute = place.partition(":")
        command = getattr(import_module(module), attribute)
        assert command.name == name, command.name
        files = {f"share/man/man1/{name}.1": man_page(command, __version__, COMMANDS)}
        for shell in SHELLS:
            files[PLACES[shell].format(name)] = completion_script(command, shell)
        for path, text in files.items():
            target = folder / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)


if __name__ == "__main__":
    write(Path(sys.argv[1]))
