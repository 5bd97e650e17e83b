"""Queues of a running `mq`, by its url, for jobs that do not see its root.

What comes over HTTP, or is to go there, is kept in a root that belongs to the job: its staging. In
it everything works as it does by root. This package has what leads from there to the servers and
back; how a server is asked belongs in `mq.client`.
"""
