"""`mq` on a system that allows 256 descriptors."""

import resource
import runpy

resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
runpy.run_module("mq", run_name="__main__")
