"""The blocking client: threads and http.client, the standard library alone. What the asynchronous
client does too belongs in `mq.client`."""
