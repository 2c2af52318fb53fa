r"""The `predict` directive: a question with answers to press, which the figure below it then answers.

    ```{predict}
    :show: rope.rotation_invariance=shift:10
    Both positions move by ten. What does the score do?

    - [ ] it grows
    - [x] it stays
    - [ ] it falls
    ---
    Why it stays.
    ```

`:show:` is the state that the figure takes when an answer is pressed, written as in the figure's address; controls that
it does not name go to their default. A live figure takes what its `SHOWN` allows: `sticks=cat:0.9`. Without scripts and
in print the box is a plain question, its answers in a list, and a fold that says which is right, and why. Nothing
outside of the fold says it. The script: book/_static/predict.js.

`:waits: cut; cut beside`, for a figure that gives the answer away as it stands: these traces are missing from its
drawing, and so is the readout, until an answer is pressed, or the figure's own button. All else can be taken in hand
before. Without scripts, in print, and where the page's address names the figure's state, nothing is missing.
"""

import json
import re
from typing import NamedTuple

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective


class Question(NamedTuple):
    asked: list[str]
    answers: list[str]
    right: int
    because: list[str]


def read(lines: list[str]) -> Question:
    r"""The parts of a box. Raises ValueError that says what is missing."""
    cut = lines.index("---") if "---" in lines else len(lines)
    first = next((i for i, line in enumerate(lines[:cut]) if re.match(r"- \[[ x]\] ", line)), cut)
    answers, right = [], []
    for line in filter(str.strip, lines[first:cut]):
        if found := re.match(r"- \[([ x])\] +(.+)", line):
            right += [len(answers)] * (found[1] == "x")
            answers.append(found[2])
        elif line.startswith("  ") and answers:
            answers[-1] += " " + line.strip()
        else:
            raise ValueError(f"predict: {line!r} is no answer; write '- [ ] answer', or '- [x] answer' for the right")
    if len(answers) not in (2, 3) or len(right) != 1:
        raise ValueError(
            f"predict: {len(answers)} answers, {len(right)} of them right; write two or three, one of them right"
        )
    asked, because = lines[:first], lines[cut + 1 :]
    for name, part in (("question", asked), ("text after the line ---", because)):
        if not any(map(str.strip, part)):
            raise ValueError(f"predict: no {name}")
    return Question(asked, answers, right[0], because)


def shown(text: str) -> tuple[str, dict]:
    r"""("rope.decay", its whole state) of an option `show`. Raises ValueError for what the figure has not."""
    from posenc.chapters import load

    id, _, pairs = text.strip().partition("=")
    named = [pair.partition(":")[::2] for pair in re.split(r",(?=\w+:)", pairs) if pair]
    if "." not in id:
        return id, shown_live(id, named)
    figure = load(id)
    state = figure.default_state()
    for name, word in named:
        if name not in figure.sliders:
            raise ValueError(f"show: {id} has no control {name!r}; it has {list(figure.sliders)}")
        slider = figure.sliders[name]
        try:
            state[name] = slider.values[slider.index(float(word) if slider.numeric else word)]
        except ValueError:
            raise ValueError(f"show: {name} of {id} is never {word!r}; it takes {list(slider.values)}") from None
    for name, slider in figure.sliders.items():
        if slider.at_most and state[name] > state[slider.at_most]:
            raise ValueError(f"show: {name}={state[name]} of {id} is above {slider.at_most}={state[slider.at_most]}")
    return id, state


def shown_live(id: str, named: list) -> dict:
    r"""The state of a live figure: only what is named. Raises ValueError for what the figure has not."""
    from posenc.chapters import load_live

    may, state = getattr(load_live(id), "SHOWN", {}), {}
    for name, word in named:
        if name not in may:
            raise ValueError(f"show: {id} has no {name!r}; it has {list(may)}")
        low, high = may[name]
        if not low <= float(word) <= high:
            raise ValueError(f"show: {name} of {id} is {low} to {high}, never {word}")
        state[name] = float(word)
    return state


def missing(id: str, names: str) -> list[int]:
    r"""The numbers of the traces that an option `waits` names. Raises ValueError for one that the figure has not."""
    from posenc.chapters import load

    if "." not in id:
        raise ValueError("waits: name the explorable that waits, by :show:")
    traces = [name for name in load(id).evaluate() if name not in ("layout", "readout")]
    wanted = [name.strip() for name in names.split(";")]
    if unknown := [name for name in wanted if name not in traces]:
        raise ValueError(f"waits: {id} has no trace {unknown}; it has {traces}")
    return [traces.index(name) for name in wanted]


class PredictDirective(SphinxDirective):
    has_content = True
    option_spec = {"show": str, "waits": directives.unchanged_required}

    def run(self) -> list[nodes.Node]:
        try:
            question = read(list(self.content))
            id, state = shown(self.options["show"]) if "show" in self.options else (None, None)
            waits = missing(id or "", self.options["waits"]) if "waits" in self.options else None
        except (ValueError, TypeError) as error:
            raise self.error(str(error)) from error
        box = nodes.admonition(classes=["tip", "predict"])
        self.set_source_info(box)
        box += nodes.title("", "Predict")
        self.parse(question.asked, box)
        answers = nodes.bullet_list(classes=["predict-answers"], bullet="-")
        for answer in question.answers:
            item = nodes.list_item()
            self.parse([answer], item)
            answers += item
        box += answers
        show = ""
        if id:
            box["shows"], box["waits"] = id, waits
            said = json.dumps(state).replace("&", "&amp;").replace("<", "&lt;").replace("'", "&#39;")
            show = f" data-show='{id}' data-state='{said}'"
        box += html(f'<details class="predict-because"{show}><summary>Answer</summary>')
        right = nodes.container(classes=["predict-right", f"predict-right-{question.right}"])
        self.parse([question.answers[question.right]], right)
        box += right
        self.parse(question.because, box)
        box += html("</details>")
        return [box]

    def parse(self, lines: list[str], into: nodes.Element) -> None:
        self.state.nested_parse(StringList(lines, self.state_machine.document["source"]), self.content_offset, into)


def html(text: str) -> nodes.raw:
    return nodes.raw("", text, format="html")


def find_figures(app, doctree) -> None:
    r"""The figures that a page's boxes set must stand on it; those that wait are told what is missing."""
    page = app.env.docname
    boxes = [box for box in doctree.findall(nodes.admonition) if "shows" in box]
    ids = {box["shows"] for box in boxes}
    there = {figure["shows"] for figure in doctree.findall(nodes.figure) if "shows" in figure}
    if ids - there:
        raise ExtensionError(f"{page}: a predict box shows {sorted(ids - there)}, but the page has {sorted(there)}")
    waiting = {box["shows"]: box["waits"] for box in boxes if box["waits"]}
    for figure in doctree.findall(nodes.figure):
        if figure.get("shows") in waiting:
            figure["classes"].append("explorable-waits")
            body = figure.next_node(nodes.raw)
            waits = f'<div class="explorable-body" data-waits="{waiting[figure["shows"]]}"'
            body[0] = nodes.Text(body.astext().replace('<div class="explorable-body"', waits, 1))


def setup(app: Sphinx) -> None:
    app.add_directive("predict", PredictDirective)
    app.connect("doctree-read", find_figures)
