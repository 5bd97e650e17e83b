"""`mq-pipeline`: jobs of Spark as commands, from queues to a lake of Parquet files and back.

    the command line    `cli`, `place_flags`; where the queues are: `places`
    the jobs            `jobs`, which move messages; `report`, which counts them
    a job's Spark       `session`; `running`: how far it is, how it is stopped, why it failed
    files               `lake`; `whole_files`: all are read or none; `json_texts`

docs/pipeline.md says what they do. How a job reads and writes queues belongs in `pyspark_mq`.
"""
