"""mq-sqs: a gateway that speaks Amazon's SQS on a root of MQ."""
