"""The blocking client: threads and http.client, the standard library alone.

`client`, `queue`, `message` and `worker` are what programs see. `session` runs their operations
over `connections`, where an `exchange` is a request and its answer; `due_renewals` begins the
renewals of leases.

What the asynchronous client does too belongs in `mq.client`.
"""
