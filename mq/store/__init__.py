"""Create, delete, publish, receive, remove: the bridge between files and HTTP.

Each is an operation (`mq.commit.operation`): file calls, and a `yield` for whatever it needs. They
run one at a time, so among themselves they need no lock; other processes are met with the message's
lock and with renames that never replace. What an operation raises before its first barrier has
changed nothing.
"""
