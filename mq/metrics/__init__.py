"""What any process counts, and the form in which Prometheus reads it. Which figures a process has
belongs to that process (`mq.admin`, `mq_mover`, `mq_reaper`)."""
