"""Power cuts by enumeration: from each cut of a recorded run, every state that the crash model
allows, the real restart on it, and what clients were promised compared with what they get.

    recorder.py   a double of Files: performs each call and notes it on a Disk
    disk.py       changes of names and attributes as one log, data, syncs
    states.py     what a power cut can leave of a Disk
    restart.py    a state laid out as files, server, mover and reaper started on it, all drained
    ledger.py     what clients asked for and were told
    promises.py   what that promises them after a cut, compared with what they get
    check.py      every state of a run, restarted, against the ledger
    server.py     a store whose rounds are the same in each run
    scene.py      servers, mover, reaper and a person's hands on one disk
    clients.py    what clients ask for; it goes to the ledger
    acting.py     what runs are made of; publishing.py, leasing.py, visibility.py, moving.py,
                  ending.py, several.py, handing_over.py, interplay.py
    rows.py       what is run: one row for each operation of the document's table
    runs.py       runs of a row, until they have left enough states

disk, recorder and states know nothing of queues: any code that works through `mq.disk.files` can
be recorded.
"""
