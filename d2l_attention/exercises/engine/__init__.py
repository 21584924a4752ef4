"""How a check works. An author of exercises needs ``authoring`` and nothing from here.

Whoever imports this will check something soon, and a new worker takes a second: it starts now.
"""

import contextlib

from d2l_attention.workers import Ready, in_a_worker

# Compilers would outlive a check's time.
workers = Ready(f"{__name__}.sandbox", environment={"TORCHDYNAMO_DISABLE": "1"})

if not in_a_worker():
    with contextlib.suppress(OSError):  # then the first check will say so
        workers.warm_up()
