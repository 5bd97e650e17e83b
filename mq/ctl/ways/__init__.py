"""The two ways in, with the same methods, which `access` says.

`by_http` asks a server, with `connect`, `answers` and `same_root`; `by_root` works on the folders,
with `runner`, `inspect`, `messages`, `removals` and `run_as_owner`.

What is printed belongs in `mq.ctl.screen`.
"""
