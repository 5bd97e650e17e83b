"""Find and mend what no process can have left on purpose: `mqctl fsck`.

It works beside running servers. `check` is a whole check: of the root's own folders by `tree`, then
of each file by `walk`, which says what may be wrong with it. That is a `suspect` of `damage`,
`implausible`, `duplicate`, `settings` or `strays`. A suspect looks again before it is reported, and
takes the message's lock without waiting before it is mended. Nothing is unlinked: what cannot stay
is moved to `corrupt`, where a person finds it. What a crash may leave does not belong in here: the
sweep finishes that (`mq.spool.sweep`).
"""
