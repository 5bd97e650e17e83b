"""How fast a server answers, for `mqctl bench` and for the benchmarks of the repository.

    generator     connections that send a request as soon as the last one is answered
    endpoints     what is sent to MQ, and where an answer ends
    phases        publish all, receive all, remove all; then whole cycles

Nothing here retries or reads more of an answer than it must: what is measured is the server. What
only the repository measures (other servers, ceilings, several disks) belongs in its folder
`benchmarks`, and not here.
"""
