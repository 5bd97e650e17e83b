"""MQ: a durable message queue over plain HTTP. A queue is a folder, a message is a file.

Next to the folders are only modules that all of them share: the table of moves (`lifecycle`),
`names`, `ids`, `properties` and `times`, the limits (`config`), the `errors`. Everything else
belongs in a folder; CONTRIBUTING.md has the levels.

Nothing heavy is imported here: a mover, a reaper or a Spark executor never loads the HTTP stack.
"""

__version__ = "0.1.0"
