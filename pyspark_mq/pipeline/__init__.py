"""`mq-pipeline`: jobs of Spark as commands, from queues to a lake of Parquet files and back.

    archive       `archive`, into a `lake`
    files         are read by `whole_files`
    replay, load  `replay`, `load`; both write by `publishing`; `json_texts`
    report        `report`, `page`, `page_file`
    all of them   the command line (`cli`), where the queues are (`place_flags`, `places`), the
                  session (`session`), how a job is stopped (`stopping`), why it failed (`causes`),
                  what is shown meanwhile (`progress`)

docs/pipeline.md says what they do. How a job reads and writes queues belongs in `pyspark_mq`.
"""
