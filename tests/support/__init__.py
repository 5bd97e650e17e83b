"""What tests share. Tests and fixtures do not belong in here.

a root by hand          `messages`, `leased_files`, `lone_root`, `immutable`; `arrows`: each
                        move of the table; `redelivery`, `purges`: what others do to it
file calls              `faults`: the seam; `native`, `chains`, `file_work`; `events`,
                        `descriptors`, `counted`
the store, by itself    `stores`, `workspaces`, `commits`, `submits`, `waiting`, `queue_moves`,
                        `fsck`
over a connection       `wire`, `batches`, `moves`, `peeks`, `properties`; `sites`: a server in
                        this process; `slow_readers`
clients                 `faces`, `played`; what they meet: `breaking`, `parting`, `proxy`
models                  `model`, `lease_model`, `producers`
processes               `processes`, `preloaded`, `process_trees`, `refusals`,
                        `few_descriptors`, `impatient`; `mqctl`, `visitors`, `terminal`
the system              `mounts`, `users`, `certificates`, `token_files`, `packages`
metrics and the page    `scraping`, `browser`
documents and source    `console`, `sessions`, `examples`, `flags`, `sources`
SQS                     `gateways`, `signers`, `fifo`, `fifo_history`, `raw_calls`
Celery                  `consuming`, `celery_tasks`, `sqs_tasks`
VSQS                    `vsqs`
Spark                   `jvm`, `spark_files`, `applications`, `spark_cluster`, `worker_forks`,
                        `worker_python`; by url: `url_site`, `staging_arrows`
how tests are run       `quick`, `shares`, `figures`
"""
