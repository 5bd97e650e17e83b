"""The queues of one root, between files and HTTP: what a request does to messages.

    a server's store        `opening`, `store`; `shared_state` of its operations;
                            `maintenance`, `health`, `free_space`, `probe`, `background`
    publish                 `publishing`; `bodies`: large ones, up and down
    receive                 `receiving`
    by id                   `by_id`, `visibility`, `release`; `place`: where a message is
    remove                  `removing`
    look                    `peeking`; `hidden_counts`, `survey`; `counts`; `shared_looks`
    queues                  `queue`: made, deleted, emptied; their settings
    between queues          `moving`
    what is remembered      `index`; `indexing` reads it from the folders
    requests together       `joint`
    limits and locks        `answer_memory`, `patience`, `holding`, `reservations`

Most are operations (`mq.commit.operation`): file calls, and a `yield` for what they need. A server
runs them one at a time, so among themselves they need no lock; other processes are kept out by the
message's lock and by renames that never replace. An operation that raises before its first barrier
has changed nothing. How a file is read, written or locked belongs in `mq.spool`, what a client is
told in `mq.web`.
"""
