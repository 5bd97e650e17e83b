"""Prepare a shell for spark-submit: `eval "$(python -m pyspark_mq)"`."""

from __future__ import annotations

import os
import shlex
import sys

from mq.errors import StartRefused
from pyspark_mq.environment import find_settings


def main() -> None:
    """Print what `pyspark_mq.prepare` would set, as lines for a shell."""
    try:
        settings = find_settings(os.environ)
    except StartRefused as error:
        print(f"pyspark_mq: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    for name, value in settings.items():
        print(f"export {name}={shlex.quote(value)}")


if __name__ == "__main__":
    main()
