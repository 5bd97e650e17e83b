"""The scripts that shells load."""

from __future__ import annotations

import click

from mq.command.completion import SHELLS, completion_script


@click.command("mq-odd")
def odd() -> None:
    pass


def test_a_script_asks_the_command_itself() -> None:
    for shell in SHELLS:
        script = completion_script(odd, shell)
        assert f"_MQ_ODD_COMPLETE={shell}_complete" in script
        assert "mq-odd" in script


def test_a_file_for_zsh_completes_whenever_it_is_called() -> None:
    script = completion_script(odd, "zsh")

    assert script.startswith("#compdef mq-odd\n")
    assert script.endswith('\n_mq_odd_completion "$@"\n')
