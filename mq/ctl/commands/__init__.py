"""The commands of mqctl with more to do than one call.

    publish and receive     `sending`, `receiving`, `transfer`: export and import; `removing`:
                            what was written leaves its queue; `executing`: exec, with
                            `command_runner` for each message
    look                    `reading`: cat and tail; `top`
    change                  `moving`: move and redrive; `purging`; `leases`: touch and release,
                            with `releasing` for a group of Spark; `queue_settings`: set
    check and measure       `checking`: fsck; `benching`, with `mq.ctl.bench`

The short ones are in `mq.ctl.cli`, beside the group that all of them belong to.
"""
