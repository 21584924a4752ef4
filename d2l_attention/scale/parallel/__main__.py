"""The command line: every way of sharing the work against one process, as a table.

``python -m d2l_attention.scale.parallel`` starts two processes itself. Under ``torchrun`` it is
one of the processes that ``torchrun`` starts, on this machine or on many:

    torchrun --nproc-per-node 2 -m d2l_attention.scale.parallel
    torchrun --nnodes 4 --nproc-per-node 8 --rdzv-backend c10d --rdzv-endpoint HOST:29500 \\
        -m d2l_attention.scale.parallel

the second line once on each of the four machines, HOST being one of them.
"""

import sys
from datetime import timedelta

import torch
import torch.distributed as dist

from d2l_attention.scale.parallel.checks import BOUND, Check, check_all
from d2l_attention.scale.parallel.launch import run_processes


def main() -> int:
    if not dist.is_torchelastic_launched():
        try:
            checks = run_processes(check_all, 2)[0]
        except (RuntimeError, TimeoutError) as error:
            print(error, file=sys.stderr)
            return 1
        except KeyboardInterrupt:
            return 130  # as a shell expects after Ctrl-C
        return report(checks, 2)
    torch.set_num_threads(1)
    dist.init_process_group("gloo", timeout=timedelta(seconds=60))
    try:
        checks = check_all()
        return report(checks, dist.get_world_size()) if dist.get_rank() == 0 else 0
    finally:
        dist.destroy_process_group()


def report(checks: list[Check], num_processes: int) -> int:
    """Print the table; 1 if a difference is too large."""
    print(f"{num_processes} processes against one: the largest differences, bound {BOUND:g}")
    print(f"{'':34}{'outputs':>10}{'gradients':>11}")
    for check in checks:
        verdict = "equal" if check.passed else "NOT EQUAL"
        print(f"{check.name:34}{check.outputs:10.1e}{check.gradients:11.1e}  {verdict}")
    return 0 if all(check.passed for check in checks) else 1


if __name__ == "__main__":
    sys.exit(main())
