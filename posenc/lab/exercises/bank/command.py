r"""`python -m posenc.lab.exercises exam` and `key`: a sheet with its key, and what a lab asks a student's seed."""

import argparse
from pathlib import Path

from posenc.lab.exercises.bank.sheet import CHAPTERS, for_lab, key_text, question_text, sheet
from posenc.lab.exercises.find_the_bug import MADE, hunt
from posenc.lab.exercises.registry import labs, of, on_paper


def exam(arguments: list[str]) -> int:
    r"""Write `exam_<seed>.md` and `exam_<seed>_key.md`."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc.lab.exercises exam", description="Write an exam sheet and its key as Markdown."
    )
    parser.add_argument("--chapters", nargs="+", default=list(CHAPTERS), metavar="CHAPTER", help=", ".join(CHAPTERS))
    parser.add_argument("--points", type=int, default=30, help="of the whole sheet; default 30")
    parser.add_argument("--seed", type=int, default=0, help="another seed is another sheet")
    parser.add_argument("--out", type=Path, default=Path("."), metavar="DIR", help="where to write; default: here")
    options = parser.parse_args(arguments)
    try:
        texts = sheet(options.chapters, options.points, options.seed)
    except ValueError as error:
        parser.error(str(error))
    options.out.mkdir(parents=True, exist_ok=True)
    for name, text in zip((f"exam_{options.seed}.md", f"exam_{options.seed}_key.md"), texts):
        (options.out / name).write_text(text, encoding="utf-8", newline="\n")
        print(f"wrote {options.out / name}")
    return 0


def key(arguments: list[str]) -> int:
    r"""Print what each lab asks a seed, with keys and steps."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc.lab.exercises key", description="What labs ask a student's seed, with keys and steps."
    )
    parser.add_argument("--seed", type=int, required=True, help="from 1 on, as POSENC_SEED")
    parser.add_argument("--labs", nargs="+", default=labs(), choices=labs(), metavar="LAB", help=", ".join(labs()))
    options = parser.parse_args(arguments)
    if not 0 < options.seed < 2**31:
        parser.error(f"--seed {options.seed} must be from 1 to 2^31 - 1; without a seed labs ask what the book asks")
    for lab in options.labs:
        print(key_of_lab(lab, options.seed))
    return 0


def key_of_lab(lab: str, seed: int) -> str:
    """What a lab asks a seed, in Markdown."""
    rows = [f"## {lab}, seed {seed}\n"]
    rows += [f"- {one.title}: {one.asks or 'as in the lab'}" for one in of(lab, seed).values()]
    if lab == "find_the_bug":
        for number, one in enumerate(hunt(seed), start=1):
            rows.append(f"- case {number}: {one.fault}; right is `{' '.join(MADE[one.fault].right.split())}`")
    questions = for_lab(lab, on_paper(lab), seed)
    if not questions:
        rows.append("- on paper: as in the lab")
    for number, (_, _, question) in enumerate(questions, start=1):
        rows += ["", question_text(number, question), "", key_text(number, question)]
    return "\n".join(rows) + "\n"
