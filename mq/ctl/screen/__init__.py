"""What is printed, and where: `display` for queues and messages, `progress` for what takes long;
`live_screen` and `flow` for `mqctl top`. What is asked of the queues belongs in `mq.ctl.ways`.
"""
