"""Connections: from the bytes of a client to requests, and back.

`http_server` has the connections of one listener. One is a `connection` of aiohttp, or a
`quick_connection`, where some requests are answered without a task: `whole_requests`, of which all
is here. `parsers` says how far it reads ahead, `framing` counts what is not a body, `last_chunks`
keeps the trailers of one out of the next request, `head_timer` is the time for a head,
`head_memory` has heads that were parsed before. `handshakes` come before a connection over TLS, and
`lingering` is its end. `presence` says whether a client is still there, `unread` whether it reads
its answers, `strangers` what ends with the refusal of one that is not known.

What a request asks for belongs in `mq.web`, where a server listens in `mq.daemon`.
"""
