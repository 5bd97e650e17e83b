"""The blocking client: threads and http.client, the standard library alone."""
