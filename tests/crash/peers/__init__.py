"""Several stores on one root against a model: whatever each of them does between two file calls of
the others, every change of a message is one that the actor at work may make, and every answer says
what became of it.

    world.py       what a root holds, as its files say
    stepping.py    actors that stop before any file call, and a time that stands still
    story.py       a request, what it and others changed meanwhile, and whether it may
    publishing.py  receiving.py  moving.py  ending.py  looking.py  chores.py    the requests
    referee.py     lets one actor work at a time, and judges what it does
    clients.py     what clients ask for
    machine.py     what servers, mover, reaper and people do beside them
"""
