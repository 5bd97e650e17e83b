"""What all command lines share: types of flags, exit codes, logs, and a stdout that may be closed
or full. The flags of one command belong to that command."""
