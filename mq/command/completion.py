"""What a shell loads to complete the words of a command: a script that asks the command itself."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

SHELLS = ("bash", "zsh", "fish")
_REGISTRATION = "if [[ $zsh_eval_context[-1] == loadautofunc ]]; then"

_CHANGES = {
    "bash": {
        "COMPREPLY+=($value)": "COMPREPLY+=($value)\n"
        "            [[ $value == *= ]] && compopt -o nospace 2>/dev/null",
    },
    "zsh": {
        "compadd -U -V unsorted -a completions": "local -a suffix\n"
        "        [[ ${completions[1]} == *= ]] && suffix=(-S '')\n"
        '        completions=("${(M)words[CURRENT]#--*=}${^completions[@]}")\n'
        '        compadd -U -V unsorted "${suffix[@]}" -a completions',
    },
    "fish": {
        'string split ","': 'string split --max 1 ","',
        "echo $metadata[2]": "set -l flag (string match -r -- '^--[^=]*=' (commandline -t)) ''\n"
        "            echo $flag[1]$metadata[2]",
    },
}
"""What is changed in click's scripts. In bash and zsh it puts no space behind `NAME=`, for which
the value is still to be typed; fish puts none, but would cut off what follows a comma. In zsh and
fish what is offered behind `--flag=` has that before it: zsh would replace the flag."""


def completion_script(command: click.Command, shell: str) -> str:
    """Return the script for one of SHELLS, as a file where that shell looks for it."""
    kind = get_completion_class(shell)
    assert kind is not None
    name = str(command.name)
    variable = f"_{name}_COMPLETE".replace("-", "_").upper()
    completion = kind(command, {}, name, variable)
    # `source` would first ask the bash of this machine for its version.
    variables = completion.source_vars()
    script = completion.source_template % variables
    for before, after in _CHANGES[shell].items():
        assert before in script
        script = script.replace(before, after)
    if shell != "zsh":
        return script
    # zsh runs the file as a function. Click's last lines complete nothing the second time.
    function, found, _ = script.partition(_REGISTRATION)
    assert found
    return f'{function}{variables["complete_func"]} "$@"\n'
