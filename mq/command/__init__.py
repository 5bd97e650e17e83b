"""What all command lines share: types of flags, how a command runs and ends, logs, the pace of a
command in words, and a stdout that may be closed or full. The flags of one command belong to that
command."""
