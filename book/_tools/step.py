r"""One line for one step of make: what it does, how far it is, and at the end how long it took.

    python book/_tools/step.py LABEL LOG COMMAND ...

All that the command says goes to the file LOG. On the screen are the pages done and the time left, Sphinx's warnings
and errors, and where the command fails, the log's end and its path. Needs nothing but Python: the first step is `pip`.
"""

import re
import subprocess
import sys
import threading
import time
from pathlib import Path

# Sphinx says "reading sources... [ 12%] book/rope/index", execution.py "executing pages... [ 4 of 25] book/rope/index".
PROGRESS = re.compile(r"(?P<stage>[a-z][a-z ]*)\.\.\. *\[ *(?P<done>\d+)(?:%| of (?P<all>\d+))\] *(?P<page>\S*)")
COLOR = re.compile(r"\x1b\[[\d;]*m")
OURS = re.compile(r"\b(WARNING|ERROR|CRITICAL|Error|error):")
NOISE = re.compile(r"IPKernelApp")  # each kernel warns that it talks to its page without encryption
PAUSE = 30  # seconds between two lines where the screen is no terminal
TAIL = 30  # lines of the log that a failure shows


def duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes} min {seconds:2} s" if minutes else f"{seconds} s"


class Screen:
    r"""The step's line: rewritten in place on a terminal, else a new one now and then."""

    def __init__(self, label: str):
        self.label, self.status, self.start = label, "", time.monotonic()
        self.stages, self.last = {}, self.start  # when each began: pages are read while others run
        self.terminal, self.over, self.lock = sys.stdout.isatty(), threading.Event(), threading.Lock()

    def read(self, line: str) -> None:
        r"""Take one line of the command's: show it, take the progress from it, or leave it to the log."""
        text = COLOR.sub("", line).rstrip()
        if progress := PROGRESS.search(text):
            self.progress(**progress.groupdict())
        elif OURS.search(text) and not NOISE.search(text):
            with self.lock:
                print(("\r\x1b[K" if self.terminal else "") + text, flush=True)

    def progress(self, stage: str, done: str, all: str | None, page: str) -> None:
        now, share = time.monotonic(), int(done) / int(all or 100)
        passed = now - self.stages.setdefault(stage, now)
        count = f"{done} of {all}" if all else f"{done} %"
        self.status = f"{stage}, {count} ({Path(page.removesuffix('/index')).stem[:24]})"
        if 0 < share < 1 and passed > 2:
            self.status += f", {duration(passed * (1 - share) / share)} left"

    def tick(self) -> None:
        r"""Keep the line fresh until the command is over."""
        while not self.over.wait(1):
            now = time.monotonic()
            line = f"{self.label:8} {duration(now - self.start):>12}  {self.status}"
            with self.lock:
                if self.terminal:
                    print(f"\r\x1b[K{line[:110]}", end="", flush=True)
                elif now - self.last >= PAUSE:
                    self.last = now
                    print(line, flush=True)

    def end(self, words: str = "") -> None:
        self.over.set()
        with self.lock:
            line = f"{self.label:8} {duration(time.monotonic() - self.start):>12}  {words}"
            print(("\r\x1b[K" if self.terminal else "") + line.rstrip(), flush=True)


def main(label: str, log: str, *command: str) -> int:
    path, screen = Path(log), Screen(label)
    path.parent.mkdir(parents=True, exist_ok=True)
    threading.Thread(target=screen.tick, daemon=True).start()
    with path.open("w", encoding="utf-8") as file:
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace"
        )
        for line in process.stdout:
            file.write(line)
            file.flush()
            screen.read(line)
    code = process.wait()
    screen.end(f"failed with {code}, all of it is in {path}" if code else "")
    if code:
        print(*path.read_text("utf-8").splitlines()[-TAIL:], sep="\n", file=sys.stderr)
        print(f"\n{label} failed; the whole log: {path}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
