"""What all command lines share.

    a command           `running`: its errors, exit codes and end; `signals`; `flags`, and the types
                        of their values; `variables` that are misspelled
    what it says        `logs`, on stderr; `waits`: that it waits for a disk; `pace`: how much it
                        has done, in words
    what it may lack    `stdin`, `stdout`, `stderr`: closed, or full
    what is made of it  `manual`: a man page; `completion`: a script for shells

The flags of one command belong to that command.
"""
