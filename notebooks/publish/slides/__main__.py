"""``python -m notebooks.publish.slides [NN ...]``: write the chapters' decks."""

import argparse
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from d2l_attention.system.files import write_whole
from notebooks.publish.course import ROOT, chosen, notebook_of, text_of
from notebooks.publish.slides.errors import SlidesError

HERE = Path(__file__).parent
# What a deck is made of besides its notebook; frames come from the views.
SOURCES = [*HERE.iterdir(), *HERE.parent.glob("*.py")]
SOURCES += (ROOT / "d2l_attention" / "views").iterdir()


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m notebooks.publish.slides",
        description="Write one HTML file of slides a chapter; it needs no network and no kernel.",
    )
    parser.add_argument("numbers", nargs="*", metavar="NN", help="these chapters; none means all")
    parser.add_argument("--out", type=Path, default=Path("build/slides"), help="folder")
    parser.add_argument("--force", action="store_true", help="also decks that are up to date")
    parser.add_argument("--plan", action="store_true", help="only print each lecture's minutes")
    parser.add_argument(
        "--lecture", metavar="PLAN", help="one deck from several chapters: a plan's file or name"
    )
    arguments = parser.parse_args()
    if arguments.plan:
        from notebooks.publish.slides.plan import plan_of  # as in `write`

        for text in chosen(arguments.numbers):
            print(f"{text.stem}: {plan_of(text)}")
        return
    try:
        arguments.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        sys.exit(f"Cannot write into {arguments.out}: {error.strerror}.")
    if arguments.lecture:
        write_lecture(arguments.lecture, arguments.out)
        return
    # Stopped in this way, too, a deck's process ends its kernel and leaves no half file.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    paths = []
    for path in map(notebook_of, chosen(arguments.numbers)):
        if not arguments.force and is_current(arguments.out / f"{path.stem}.html", path):
            print(f"{path.stem}: up to date", flush=True)
        else:
            paths.append(path)
    if len(paths) > 1:
        failed = write_two_at_a_time(paths, arguments.out)
    else:
        failed = [path for path in paths if not write(path, arguments.out)]
    if failed:
        sys.exit(f"No deck of {', '.join(path.stem for path in failed)}.")


def write_two_at_a_time(paths: list[Path], out: Path) -> list[Path]:
    """Write each deck in a process of its own and say so; those that failed."""
    running: list[subprocess.Popen] = []

    def write_one(path: Path) -> bool:
        command = [sys.executable, "-X", "utf8", "-m", __spec__.name]
        command += ["--force", "--out", str(out), path.stem[:2]]
        # Out of reach of Ctrl-C, which would else come twice.
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            start_new_session=True,
        )
        running.append(process)
        said = process.communicate()[0]
        if not stopped:
            print(said, end="", flush=True)
        return process.returncode == 0

    stopped = False
    pool = ThreadPoolExecutor(2)
    try:
        # Later chapters take longer: what is long is not left to the end.
        written = list(pool.map(write_one, paths[::-1]))
        return [path for path, is_there in zip(paths, written[::-1], strict=True) if not is_there]
    except KeyboardInterrupt:
        stopped = True
        pool.shutdown(wait=False, cancel_futures=True)
        for process in running:
            process.terminate()
        pool.shutdown()  # waits until they have ended
        sys.exit("Stopped: the decks that were not finished stay as they were.")


def write(path: Path, folder: Path) -> bool:
    """Write one deck and say so; whether it is there now."""
    # Here, because `--help` and a deck that is up to date need none of it, and it takes a second.
    from notebooks.publish.slides.deck import export

    start = time.monotonic()
    try:
        slides, size = export(path, folder / f"{path.stem}.html")
    except SlidesError as error:
        print(f"{path.stem}: {error}", file=sys.stderr, flush=True)
        return False
    seconds = time.monotonic() - start
    print(f"{path.stem}: {slides} slides, {size / 1e6:.1f} MB, {seconds:.1f} s", flush=True)
    return True


def write_lecture(plan: str, folder: Path) -> None:
    """Write the deck of a plan, and say what there is to say of it."""
    from notebooks.publish.slides.lecture import export_plan, read_plan  # as in `write`

    try:
        lecture = read_plan(plan)
        text, slides = export_plan(lecture, folder)
    except SlidesError as error:
        sys.exit(str(error))
    out = folder / f"{lecture.name}.html"
    write_whole(out, text)
    print(f"{out}: {slides} slides, {len(text) / 1e6:.1f} MB", *lecture.remarks, sep="\n")


def is_current(out: Path, notebook: Path) -> bool:
    """Whether the deck is younger than its notebook and text and all that it is made with."""
    sources = [file for file in (notebook, text_of(notebook), *SOURCES) if file.is_file()]
    newest = max(file.stat().st_mtime for file in sources)
    return out.exists() and out.stat().st_mtime > newest


if __name__ == "__main__":
    main()
