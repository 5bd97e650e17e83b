"""What SQS says of a queue: its addresses, its attributes, its tags.

`addresses` has names, URLs and ARNs. `queue_attributes` and `tags` are settings of MQ and notes
beside them; `redrive_policies` are those about dead letters.

The attributes of FIFO queues belong in `mq_sqs.fifo`, and what a client may do with a queue in
`mq_sqs.operations`.
"""
