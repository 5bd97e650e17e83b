"""The one door to the disk: file calls as plain blocking functions that know no queue.

`files` changes the file system, with `libc` and `byte_locks`; `listing` reads what is in a folder,
and `status` is what stat(2) says of a file; `calls` and `file_work` make many calls at once, in
native.c where that is built; `child_processes` share long work. What a folder or file means belongs
in `mq.spool`.
"""
