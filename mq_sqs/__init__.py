"""mq-sqs: a gateway that speaks Amazon's SQS on a root of MQ. Like `mq.web` it works on the files
through `mq.store`.

    the process         `cli`, `server`, `gateway`, `healthy`; `quick`: what most requests are;
                        `call_heads`
    who asks            `signing`
    what a call is      `calls`, `model`, `faults`; `protocol` reads and writes it
    what each call does `operations`
    what SQS adds       `queues`, `messages`, `tasks`; `fifo`: which message of a FIFO queue may be
                        received

What messages go through belongs in `mq.store`.
"""
