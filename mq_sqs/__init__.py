"""mq-sqs: a gateway that speaks Amazon's SQS on a root of MQ. Like `mq.web` it works on the files
through `mq.store`.

    the process         `cli`, `server`, `gateway`, `healthy`; `quick`: what most requests are;
                        `call_heads`
    what a call is      `calls`, `model`, `faults`; `protocol` reads and writes it
    who asks            `signatures`, `signature_fields`, `canonical`, `signing_keys`,
                        `last_signed`; `digests`
    SQS's own           `addresses`, `handles`, `queue_attributes`, `redrive_policies`, `tags`;
                        `move_tasks`, `move_chunks`, `task_notes`;
                        `message_attributes`, `packing`, `properties`

`operations` has what each call does, `fifo` which message of a FIFO queue may be received. What
messages go through belongs in `mq.store`.
"""
