"""The console blocks of a document, run as they stand.

A fenced block of the kind `console` holds commands, each behind `$ `, with what it prints below.
The commands run in order against one fresh server; address and root are the only things put in
their place. `curl -i` prints an answer's head and body; headers that every answer has may be left
out, all others must be shown.

What differs from run to run is recognised by its shape: a message id, a lease, a time, milliseconds
since 1970, a decimal number. The first time one is shown it stands for what was printed there, and
from then on, in commands and answers, for that value and no other. Decimal numbers are compared by
shape alone.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ADDRESS = "127.0.0.1:8080"
ROOT = "/tmp/mq"
ON_EVERY_ANSWER = ("Date", "Server", "Content-Length", "Cache-Control", "X-Content-Type-Options",
                   "Content-Security-Policy")  # fmt: skip
PROGRAMS = ("curl", "ls", "mv")

_ENVIRONMENT = {"LC_ALL": "C", "PATH": os.environ["PATH"]}
_DECIMAL = r"\d+\.\d+(?:e-\d+)?"
_SHAPES = {
    "id": r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}",
    "lease": r"\b[0-9a-f]{16}\b",
    "time": r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z",
    "stamp": r"\b1[0-9]{12}\b",
    "decimal": rf"(?<=: ){_DECIMAL}",
}
_SAMPLE = re.compile("|".join(f"(?P<{name}>{shape})" for name, shape in _SHAPES.items()))


class Block(NamedTuple):
    """A fenced block: its kind, the number of its first line, its lines."""

    kind: str
    first_line: int
    lines: list[str]


class ConsoleStep(NamedTuple):
    """A command and what it prints; `line` is where it stands in the document."""

    line: int
    command: str
    output: list[str]


def read_blocks(text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a document, also the indented ones."""
    block: Block | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        fence = line.strip()
        if not fence.startswith("```"):
            if block is not None:
                block.lines.append(line)
        elif block is None:
            block = Block(fence.strip("`"), number + 1, [])
        else:
            yield block
            block = None
    assert block is None, "a fenced block has no end"


def read_steps(text: str) -> list[ConsoleStep]:
    """Return the commands of all console blocks, in order."""
    steps: list[ConsoleStep] = []
    for block in read_blocks(text):
        if block.kind != "console":
            continue
        assert block.lines[0].startswith("$ "), (
            f"line {block.first_line}: a console block begins with a command"
        )
        for number, line in enumerate(block.lines, start=block.first_line):
            if line.startswith("$ "):
                steps.append(ConsoleStep(number, line[2:], []))
            else:
                steps[-1].output.append(line)
    return steps


class Console:
    """Runs steps against the server at `address` on `root`."""

    def __init__(self, address: str, root: Path) -> None:
        self._address = address
        self._root = str(root)
        self._real: dict[str, str] = {}

    def run(self, step: ConsoleStep) -> None:
        """Run a step. Raises AssertionError if it cannot be run, or prints something else."""
        words = [self._localise(self._fill_in(word)) for word in split(step.command)]
        printed = self._print(words).splitlines()
        shown = _without_blank_end([self._localise(line) for line in step.output])
        if words[0] == "curl":
            printed = _without_headers(printed, shown)
        printed = _without_blank_end(printed)
        same = len(shown) == len(printed) and all(
            self._is_same(*pair) for pair in zip(shown, printed, strict=True)
        )
        if not same:
            raise AssertionError(
                "\n  ".join([f"line {step.line}: {step.command}", "the document shows:", *shown])
                + "\n  ".join(["\n  but this is printed:", *printed])
            )

    def _localise(self, text: str) -> str:
        return text.replace(ADDRESS, self._address).replace(ROOT, self._root)

    def _fill_in(self, text: str) -> str:
        return _SAMPLE.sub(lambda sample: self._real.get(sample[0], sample[0]), text)

    @staticmethod
    def _print(words: list[str]) -> str:
        if words[0] == "curl":
            words = ["curl", "--silent", "--show-error", "--max-time", "20", *words[1:]]
        done = subprocess.run(words, check=False, capture_output=True, env=_ENVIRONMENT)
        assert done.returncode == 0, f"{shlex.join(words)}: {done.stderr.decode()}"
        return done.stdout.replace(b"\r\n", b"\n").decode()

    def _is_same(self, shown: str, printed: str) -> bool:
        """Return whether a line is as shown. If it is, the samples in it are known from here on."""
        pattern, position = "", 0
        found: dict[str, str] = {}
        for sample in _SAMPLE.finditer(shown):
            pattern += re.escape(shown[position : sample.start()])
            pattern += self._pattern_of(sample, found)
            position = sample.end()
        match = re.fullmatch(pattern + re.escape(shown[position:]), printed)
        if match is None or not set(match.groups()).isdisjoint(self._real.values()):
            return False
        self._real |= {text: match[group] for text, group in found.items()}
        return True

    def _pattern_of(self, sample: re.Match[str], found: dict[str, str]) -> str:
        text, shape = sample[0], str(sample.lastgroup)
        if shape == "decimal":
            return _DECIMAL
        if text in self._real:
            return re.escape(self._real[text])
        if text in found:
            return f"(?P={found[text]})"
        found[text] = f"sample{len(found)}"
        return f"(?P<{found[text]}>{_SHAPES[shape]})"


def split(command: str) -> list[str]:
    """Return the words of a command. Raises AssertionError if it is not one that the test can
    run."""
    lexer = shlex.shlex(command, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    words = list(lexer)
    assert not any(set(word) <= set("();<>|&") for word in words), (
        f"{command}: the test has no shell"
    )
    assert words[0] in PROGRAMS, f"{command}: the test runs {', '.join(PROGRAMS)}"
    if words[0] == "curl":
        assert words[1] in ("-i", "-I"), f"{command}: without -i no status is shown"
        assert any(ADDRESS in word for word in words), f"{command}: for another server"
    return words


def _without_headers(printed: list[str], shown: list[str]) -> list[str]:
    """Return an answer without the headers that every answer has, unless the document shows
    them."""
    end = printed.index("") if "" in printed else len(printed)
    names = [line.partition(":")[0] for line in printed[1:end]]
    is_empty = " 204 " in printed[0] + " "
    for name in ON_EVERY_ANSWER:
        assert name in names or (is_empty and name == "Content-Length"), (
            f"no header {name} in {printed}"
        )
    hidden = set(ON_EVERY_ANSWER) - {line.partition(":")[0] for line in shown}
    head = [line for line in printed[:end] if line.partition(":")[0] not in hidden]
    return head + printed[end:]


def _without_blank_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines
