"""How a check works. An author of exercises needs ``authoring`` and nothing from here.

A notebook that imports this will check something soon, and a new worker takes seconds: it starts
now. Elsewhere, the first check starts it.
"""

import contextlib
import gc
import sys

from d2l_attention.system.workers import Ready

# Compilers would outlive a check's time.
workers = Ready(f"{__name__}.sandbox", environment={"TORCHDYNAMO_DISABLE": "1"})

if "ipykernel.kernelapp" in sys.modules:
    # What is there by now, mostly imports, is never garbage: Python's last search for some, which
    # takes a second when a kernel ends, passes over it.
    gc.freeze()
    with contextlib.suppress(OSError):  # then the first check will say so
        workers.warm_up()
