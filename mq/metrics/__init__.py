"""What any process counts, and the form in which Prometheus reads it. The figures of one process
belong to that process (`mq.admin`, `mq_mover`, `mq_reaper`)."""
