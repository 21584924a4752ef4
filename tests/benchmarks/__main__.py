"""The benchmark, ``python -m tests.benchmarks``: a table on the screen and in a file.

Ratios against others, taken in one run: d2l 1.0.3 from the package index, PyTorch by hand.
"""

import argparse
import dataclasses
import datetime
import json
import os
import platform
from pathlib import Path

import torch

from d2l_attention.system.files import write_whole
from tests.benchmarks import attention, transformer
from tests.benchmarks.timing import ROOT

SUBJECTS = {"attention": attention, "transformer": transformer}


def machine() -> dict[str, str]:
    names = [
        line.split(":", 1)[1].strip()
        for line in read("/proc/cpuinfo").splitlines()
        if line.startswith("model name")
    ]
    facts = {
        "date": datetime.datetime.now().isoformat(timespec="minutes"),
        "processor": names[0] if names else platform.processor() or platform.machine(),
        "threads": str(torch.get_num_threads()),
        "system": platform.platform(terse=True),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }
    if hasattr(os, "getloadavg"):  # Windows has none
        facts["load"] = " ".join(f"{load:.1f}" for load in os.getloadavg())
    return facts


def read(path: str) -> str:
    return Path(path).read_text("utf-8") if Path(path).exists() else ""


def markdown(facts: dict[str, str], rows: list) -> str:
    lines = [f"- {name}: {value}" for name, value in facts.items()]
    lines += ["", "| what | median | spread | goal | |", "|---|---|---|---|---|"]
    for row in rows:
        bound, verdict = "at most" if row.most else "at least", "" if row.reached else "not reached"
        spread = f"{min(row.values):.2f} to {max(row.values):.2f}" if row.values[1:] else ""
        lines.append(
            f"| {row.what} | {row.value:.2f} {row.unit} | {spread} | {bound} {row.goal:g} "
            f"| {verdict} |"
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("subjects", nargs="*", metavar="SUBJECT", help=f"of {', '.join(SUBJECTS)}")
    parser.add_argument("--full", action="store_true", help="the long cases, too")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "bench", help="folder")
    arguments = parser.parse_args()
    if unknown := set(arguments.subjects) - set(SUBJECTS):
        parser.error(f"no subject {', '.join(sorted(unknown))}: choose of {', '.join(SUBJECTS)}")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    facts, rows = machine(), []
    for name, value in facts.items():
        print(f"{name}: {value}")
    print("median (lowest to highest round)\n")
    path = arguments.out / facts["date"].replace(":", "")
    for subject in arguments.subjects or SUBJECTS:
        for row in SUBJECTS[subject].rows(arguments.full):
            print(row, flush=True)
            rows.append(row)
            # After each row, so that a run that is cut off leaves what it has measured.
            what = {"machine": facts, "rows": [dataclasses.asdict(row) for row in rows]}
            write_whole(path.with_suffix(".json"), json.dumps(what, indent=1) + "\n")
            write_whole(path.with_suffix(".md"), markdown(facts, rows))
    missed = sum(not row.reached for row in rows)
    print(f"\n{len(rows) - missed} of {len(rows)} goals reached. Written: {path}.md and .json")


if __name__ == "__main__":
    main()
