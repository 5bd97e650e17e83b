"""What Spark's source and sink leave in the folder `spark`.

    reading             `claims`: what a query has taken, batch by batch; `claiming` takes it out of
                        its queues; `letting_go`: what is done with; `group_owner`: which query
                        that is; `finished`: ids of messages that Spark is done with
    writing             `staging`: what one attempt of a task has written; `transactions` let all of
                        a batch count, or none of it; `jobs`: which batches are committed
    both                `settle` brings messages to their queues; `marker_files`: facts in names

What Spark asks for belongs in `pyspark_mq`.
"""
