"""What SQS adds to a message: attributes, digests and receipt handles.

`message_attributes` says which attributes there may be, `packing` brings them into the properties
of a message, and `properties` reads them from there. `digests` has the MD5s that clients compare,
`handles` the receipt handles.

How a message is sent or received belongs in `mq_sqs.operations`.
"""
