"""A queue as a folder.

    make and delete one     `queues`, `prepared`, `queue_birth`, `fresh_folder`
    its settings            `queue_settings`, `settings_file`, `known_settings`
    look into it            `listing`, `hidden`
    empty it                `purging`, `purged`

What a server remembers of it belongs in `mq.store.index`.
"""
