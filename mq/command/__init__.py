"""What all command lines share: types of flags, exit codes, logs, the pace of a command in words,
and a stdout that may be closed or full. The flags of one command belong to that command."""
