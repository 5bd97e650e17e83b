"""Create, delete, publish, receive, remove: the bridge between files and HTTP.

Each operation is a generator (`mq.operation`) that the committer runs: file calls, `yield` what
they left unsynced, the rest. They run one at a time, so among themselves they need no lock; other
processes are met with the message's lock and with renames that never replace. What an operation
raises before its `yield` has changed nothing.
"""
