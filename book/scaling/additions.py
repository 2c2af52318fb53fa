r"""What *Longer than trained* tells of additions to RoPE, and of longer training, results/additions.json."""

from itertools import pairwise

import numpy as np

from posenc.chapters.scaling.facts import LONGEST, TEXT, TOLERANCE, L, exceeds, near, outcomes_of, risen, worst_verdict
from posenc.lab.experiments import ONE_A_PLACE, judge, load_results
from posenc.lab.titles import title
from posenc.lab.write import cell, say, table

ADDED = load_results("additions")


def added(arm):
    r"""The losses of RoPE with an addition, or of a method with more steps: [seed, length]."""
    return np.array(ADDED["methods"][arm]["whole"])


def budgets(method):
    r"""A method's losses by the steps of its training, in the same seeds: {steps: [seed, length]}."""
    longer = {arm.split()[-2]: added(arm) for arm in ADDED["methods"] if arm.startswith(f"{method},")}
    few = np.array(TEXT["methods"][method]["whole"])[ADDED["seeds"]]
    return {TEXT["settings"]["steps"]: few} | {int(steps): losses for steps, losses in longer.items()}


def addition_verdicts():
    r"""Of each prediction on an addition its claims and what became of them: {name: [(claim, verdict)]}."""
    plain, losses = added("RoPE"), {name: added(name) for name in ADDED["predictions"] if name != "budget"}
    less = {name: risen(each) - risen(plain) for name, each in losses.items()}
    own = {method: [risen(losses) for losses in budgets(method).values()] for method in ONE_A_PLACE}
    more = [b - a for method in ("rope", "sinusoidal") for a, b in pairwise(own[method])]
    grows = [judge(each.tolist(), 0.0, "stays") for each in more]
    several = [each for method in ("alibi", "stickbreaking") for each in own[method] if len(each) > 1]
    holds = [judge(each.tolist(), TOLERANCE, "holds") for each in several]
    return {
        "last layer NoPE": [("no more", judge(less["last layer NoPE"].tolist(), TOLERANCE, "holds"))],
        "sink": [("like RoPE", near(less["sink"], 0.0))],
        "QK-norm": [("less", exceeds(-less["QK-norm"]))],
        "scaled logits": [("less", exceeds(-less["scaled logits"]))],
        "dropped": [
            ("less", exceeds(-less["dropped"])),
            ("a higher loss at L", exceeds(losses["dropped"][:, 0], plain[:, 0])),
        ],
        "tuned": [("like RoPE", near(less["tuned"], 0.0))],
        "trained at 8 L": [
            ("no rise", judge(risen(losses["trained at 8 L"]).tolist(), TOLERANCE, "holds")),
            ("a fall", exceeds(-risen(losses["trained at 8 L"]))),
        ],
        "budget": [("RoPE, sinusoid: no less", worst_verdict(grows)), ("the others hold", worst_verdict(holds))],
    }


def added_table():
    r"""RoPE with one addition each, three seeds: what was predicted of the rise, and what came."""
    rows, said = [], addition_verdicts()
    for name in [arm for arm in ADDED["methods"] if "," not in arm]:
        losses = added(name)
        rows.append([name, cell(losses[:, 0]), cell(risen(losses)), outcomes_of(said.get(name, ()))])
    return table(["", f"at {L}", f"rise to {LONGEST}", "predicted"], rows)


def budget_table():
    r"""A method for each place and none, by the steps of their training: the loss at L, and the rise."""

    def words(losses):
        first, rises = losses[:, 0], risen(losses)
        return f"{cell(first)}, {cell(rises)}" if len(losses) > 1 else f"{first[0]:.2f}, {rises[0]:.2f} (one seed)"

    rows = [[title(method), *map(words, budgets(method).values())] for method in ONE_A_PLACE]
    return table(["", *(f"{steps:,} steps" for steps in budgets("rope"))], rows)


def budget_outcomes():
    r"""Give the prose what became of the prediction on longer training."""
    say("scaling_budget", outcomes_of(addition_verdicts()["budget"]).replace("**", ""))
