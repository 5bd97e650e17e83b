"""A message as a file.

`held` has its lock, and every step that needs it; `opening` makes the same file calls as one chain,
and `glances` looks at many without a lock.
`seal`, `trailer` and `burial` are what the file says, and `checksum` whether that is true.
`in_use` is whether another process has it under its lock.
`second_names` settles a message that has two names, and `fresh_copy` writes one again that may be
in memory alone.

Where a message goes next belongs in `mq.lifecycle` and `mq.spool.moves`.
"""
