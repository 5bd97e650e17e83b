"""The quick way: the requests that clients send most, answered without a task for each.

`way` begins behind aiohttp's parser, so one parser reads every byte. A parsed publish, receive or
removal whose body is here becomes neither a `web.Request` nor a coroutine: it goes to the committer
at once and is answered from its callback. Anything unusual about it, and anything but a success,
goes the usual way (`mq.web.api`), which finds the error again, or is handed it, and words it.

`publishing`, `receiving` and `removing` say what such requests ask for: how it is read from a head,
begun, and answered by a `taken_request`. A head that came before is not parsed again
(`known_heads`).

What parameters mean, and how an answer reads, is the same both ways, and belongs in `mq.web` and
its `endpoints`.
"""
