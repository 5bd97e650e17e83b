"""The process `mq`: from its command line to its last answer.

    the process             `cli`, `shared_flags`, `server`, `signals`, `standalone`, `notify`,
                            `healthy`
    what it listens on      `listeners`, `sockets`
    who may come in         `credentials`, `token_file`, `tls`: read at start and on SIGHUP

What it answers belongs in `mq.web` and `mq.admin`, what it does to messages in `mq.store`.
"""
