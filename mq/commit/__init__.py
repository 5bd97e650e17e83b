"""What an operation is and may ask for, what makes it durable, and what runs it: one committer for
roots on stable media, one for roots in memory, and one that blocks, for commands and tests. What an
operation does belongs in `mq.store`."""
