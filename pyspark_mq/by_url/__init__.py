"""By url: queues of a running `mq`, for jobs that do not see its root.

What comes over HTTP, or is to go there, lies in a root that belongs to the job: its staging. In it
everything works as it does by root. This package is what leads from there to the servers and back.
"""
