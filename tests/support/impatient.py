"""`mq` that sweeps and looks at its root five times a second, and waits half a second for a queue
that another process has to itself. What it finds and says is the same, only sooner."""

import runpy

from mq.store import maintenance, patience

vars(maintenance)["SWEEP_SECONDS"] = 0.2
vars(patience)["PURGE_LOCK_SECONDS"] = 0.5
runpy.run_module("mq", run_name="__main__")
