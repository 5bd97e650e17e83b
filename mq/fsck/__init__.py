"""Find and mend what no process can have left on purpose: `mqctl fsck`.

It works beside running servers. `walk` goes through the folders and says what may be wrong with
each file, as a suspect of `damage`, `strays` or `tree`. A suspect looks again before it is
reported, and takes the message's lock without waiting before it is mended. Nothing is unlinked:
what cannot stay is moved to `corrupt`, where a person finds it. What a crash may leave does not
belong in here: the sweep finishes that (`mq.spool.sweep`).
"""
