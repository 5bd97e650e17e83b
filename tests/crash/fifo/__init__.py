"""FIFO queues after a power cut, and with each file call failing.

ledger.py     what clients asked for and were told, and what that promises them
clients.py    what clients ask for, on a recorded disk; a failed request is tried again
plays.py      what is run, on the scene of `tests/crash/enumeration`
cuts.py       the states that a run leaves when it is cut
restart.py    a gateway, a mover and its clients on such a state, and what does not hold
"""
