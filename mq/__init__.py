"""MQ: a durable message queue over plain HTTP. A queue is a folder, a message is a file.

Nothing heavy is imported here: a mover, a reaper or a Spark executor never loads the HTTP stack.
"""

__version__ = "0.1.0"
