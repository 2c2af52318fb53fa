r"""Exams on paper and oral: questions of the chapters' banks, answers computed as a key is written.

    python -m posenc.lab.exam --chapters rope alibi --points 30 --seed 3 --out exams

writes a sheet and its key. Questions stand in a chapter's exam.md, as `posenc.lab.check.bank` says.

`--roster class.csv` writes a sheet and a key for each student: the questions are those of `--seed`, the numbers follow
from it and the student's own. Bank and keys are public: whoever knows both can print the key.
"""

import argparse
import itertools
import random
import re
from pathlib import Path

from posenc.lab.check.bank import BOOK, Question, banks, chapters, fill, keyed, read
from posenc.lab.check.exercise import student_seed
from posenc.lab.check.gradebook import roster

RULES = """Letters and conventions are those of the book's *Notation*, angles are in radians. A pocket calculator is
allowed. Points are for steps and reasons, not for numbers alone."""
HEAD = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Exam</title><style>@page { margin: 2cm }
body { font: 11pt serif; max-width: 42em; margin: auto } p { break-inside: avoid } h2 { font-size: 1.1em }</style>"""


def choose(bank: list[Question], points: int, seed: int) -> list[Question]:
    """Questions that make exactly these points, from the chapters in turn, in an order that the seed shuffles.

    Errors: ValueError where no choice makes them, with the sums next to them that can be made.
    """
    shuffled = random.Random(seed).sample(bank, len(bank))
    groups = {asked.chapter: [other for other in shuffled if other.chapter == asked.chapter] for asked in shuffled}
    ordered = [asked for turn in itertools.zip_longest(*groups.values()) for asked in turn if asked]
    sums = [{0}]  # what the last 0, 1, ... questions can make
    for asked in reversed(ordered):
        sums.append(sums[-1] | {total + asked.points for total in sums[-1]})
    if points < 1 or points not in sums[-1]:
        near = sorted(sums[-1] - {0}, key=lambda total: abs(total - points))[:4]
        raise ValueError(f"points={points} can't be made of these {len(bank)} questions; try one of {sorted(near)}")
    chosen = []
    for asked, rest in zip(ordered, sums[-2::-1]):
        if points - asked.points in rest:
            chosen.append(asked)
            points -= asked.points
    return sorted(chosen, key=lambda asked: list(groups).index(asked.chapter))


def takers(path: str | Path) -> dict[str, int]:
    """{id: the seed of its numbers} of a roster's students; the id is the seed where the roster has none.

    Errors: ValueError where an id names no file, or the file of another; and those of `roster` and `student_seed`.
    """
    seeds = {}
    for student in roster(path):
        if not re.fullmatch(r"[\w.@+ -]{1,100}", student.id):
            raise ValueError(f"{path}: id={student.id!r} names files: letters, digits, spaces and . @ + - _ make one")
        if student.id.lower() in map(str.lower, seeds):
            raise ValueError(f"{path}: id={student.id!r} must differ from others by more than case, to name files")
        try:
            seeds[student.id] = student_seed(student.id) if student.seed is None else student.seed
        except ValueError as error:
            raise ValueError(f"{path}: id={student.id!r} has no seed: {error}") from None
    return seeds


def sheet(filled: list[Question], name: int | str, key: bool = False) -> str:
    """The sheet as Markdown, or its key: each question again, its answer by steps, and what wrong ones tell."""
    points, minutes = sum(asked.points for asked in filled), sum(asked.minutes for asked in filled)
    names = ", ".join(dict.fromkeys(asked.chapter for asked in filled))
    parts = [f"# {'Key' if key else 'Exam'} {name}: {names}", f"{points} points, {minutes} minutes. {RULES}"]
    parts += [] if key else ["Name: ____________________"]
    for number, asked in enumerate(filled, 1):
        more = f", {asked.difficulty}" if key else ""
        parts += [f"## {number}. {asked.title} ({asked.points} points, {asked.minutes} minutes{more})", asked.text]
        parts += [keyed(asked)] * key
    return "\n\n".join(parts) + "\n"


def page(markdown: str) -> str:
    """Markdown as one HTML file that a browser prints, formulas as MathML.

    Errors: ImportError, OSError without the repository's requirements.txt or its Temml; JSEvalException for bad TeX.
    """
    from markdown_it import MarkdownIt
    from mdit_py_plugins.dollarmath import dollarmath_plugin
    from py_mini_racer import MiniRacer

    def mathml(tex, options):
        return engine.call("temml.renderToString", tex, {"displayMode": options["display_mode"], "throwOnError": True})

    with MiniRacer() as engine:  # one that is left open may never let Python end
        engine.eval((BOOK / "_vendor" / "temml" / "temml.min.js").read_text("utf-8"))
        return f"{HEAD}{MarkdownIt().use(dollarmath_plugin, renderer=mathml).render(markdown)}</html>\n"


def main(arguments: list[str] | None = None) -> None:
    """Write exam-SEED and key-SEED, or with each id of a roster, .md and .html; what is there and differs is kept."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc.lab.exam", description="Write an exam and its key, from a copy of the repository."
    )
    parser.add_argument("--chapters", nargs="+", metavar="CHAPTER", help="default: all there are")
    parser.add_argument("--points", type=int, required=True, help="what the questions make, exactly")
    parser.add_argument("--seed", default="0", help="a number or a word: draws the questions and their numbers")
    parser.add_argument("--roster", metavar="CSV", help="one exam for each student, numbers by seed or id; needs --out")
    parser.add_argument("--oral", action="store_true", help="oral questions in place of those on paper")
    parser.add_argument("--kit", type=Path, metavar="DIR", help="a teacher's kit that holds the questions")
    parser.add_argument("--out", type=Path, metavar="DIR", help="the folder to write to, default: this one")
    options = parser.parse_args(arguments)
    if options.roster is not None and not options.out:
        parser.error("--roster writes files for each student: name a folder for them, --out DIR")
    try:
        seed = student_seed(options.seed)
        book = banks(options.kit)
        asked_of = options.chapters or chapters(book)
        bank = [asked for chapter in dict.fromkeys(asked_of) for asked in read(chapter, book)]
        bank = [asked for asked in bank if (asked.kind == "oral") == options.oral and not asked.lab]
        if not bank:
            raise ValueError(f"--chapters {' '.join(asked_of)}: no exam questions there but what the lab asks")
        chosen = choose(bank, options.points, seed)
        seeds = {options.seed.strip() or 0: seed} if options.roster is None else takers(options.roster)
        drawn = {name: own if options.roster is None else student_seed(f"s{seed}.{own}") for name, own in seeds.items()}
        exams = {name: [fill(asked, number) for asked in chosen] for name, number in drawn.items()}
    except (ValueError, FileNotFoundError) as error:
        parser.error(str(error))
    files = {f"{kind}-{name}.md": sheet(exams[name], name, kind == "key") for name in exams for kind in ("exam", "key")}
    out = options.out or Path()
    try:
        files |= {name.removesuffix("md") + "html": page(text) for name, text in files.items()}
    except (ImportError, OSError) as error:
        print(f"no HTML, print the Markdown: {error} (it takes a copy of the repository and its requirements.txt)")
    out.mkdir(parents=True, exist_ok=True)
    paths = {out / name: text for name, text in files.items()}
    if edited := [path.name for path, text in paths.items() if path.exists() and path.read_text("utf-8") != text]:
        parser.error(f"--out {out}: {edited[0]} is there and differs; name another folder, or remove it")
    for path, text in paths.items():
        path.write_text(text, encoding="utf-8")
        print(path)


if __name__ == "__main__":
    main()
