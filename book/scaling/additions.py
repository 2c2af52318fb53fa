r"""What *Longer than trained* tells of additions to RoPE, and of longer training, results/additions.json."""

from itertools import pairwise

import numpy as np

from posenc.chapters.scaling.facts import LONGEST, TEXT, TOLERANCE, L, exceeds, near, outcomes_of, risen, worst_verdict
from posenc.lab.experiments import ONE_A_PLACE, judge, load_results
from posenc.lab.titles import title
from posenc.lab.write import cell, interval, say, table

ADDED = load_results("additions")
SEEDS = len(ADDED["seeds"])


def ends(arm):
    r"""Losses at L and at the longest, [seed and block, 2]: of the seeds, then over these of each block of windows.

    arm: RoPE with an addition, a method with more steps, or a method: with the steps of the study, in these seeds.
    """
    study = (ADDED if arm in ADDED["methods"] else TEXT)["methods"][arm]
    whole = np.array(study["whole"])[ADDED["seeds"]][:, [0, -1]]
    if "in_blocks" in study:
        blocks = np.reshape(study["in_blocks"], (2, -1))
    else:
        blocks = np.mean([study["blocks"][seed]["whole"] for seed in ADDED["seeds"]], 0)[[0, -1]]
    return np.concatenate((whole, blocks.T))


def budgets(method):
    r"""A method's arms, by the steps of their training."""
    return [method, *(arm for arm in ADDED["methods"] if arm.startswith(f"{method},"))]


def addition_verdicts():
    r"""Of each prediction on an addition its claims and what became of them: {name: [(claim, verdict)]}."""
    losses = {name: ends(name) for name in ("RoPE", *ADDED["predictions"]) if name != "budget"}
    less = {name: risen(each) - risen(losses["RoPE"]) for name, each in losses.items()}
    rises = {method: [risen(ends(arm)) for arm in budgets(method)] for method in ONE_A_PLACE}
    more = [b - a for method in ("rope", "sinusoidal") for a, b in pairwise(rises[method])]
    grows = [judge(each.tolist(), 0.0, "stays", SEEDS) for each in more]
    holds = [judge(x.tolist(), TOLERANCE, "holds", SEEDS) for own in ("alibi", "stickbreaking") for x in rises[own]]
    long = risen(losses["trained at 8 L"])
    return {
        "last layer NoPE": [("no more", judge(less["last layer NoPE"].tolist(), TOLERANCE, "holds", SEEDS))],
        "sink": [("like RoPE", near(less["sink"], 0.0, SEEDS))],
        "QK-norm": [("less", exceeds(-less["QK-norm"], seeds=SEEDS))],
        "scaled logits": [("less", exceeds(-less["scaled logits"], seeds=SEEDS))],
        "dropped": [
            ("less", exceeds(-less["dropped"], seeds=SEEDS)),
            ("a higher loss at L", exceeds(losses["dropped"][:, 0], losses["RoPE"][:, 0], seeds=SEEDS)),
        ],
        "tuned": [("like RoPE", near(less["tuned"], 0.0, SEEDS))],
        "trained at 8 L": [
            ("no rise", judge(long.tolist(), TOLERANCE, "holds", SEEDS)),
            ("a fall", exceeds(-long, seeds=SEEDS)),
        ],
        "budget": [("RoPE, sinusoid: no less", worst_verdict(grows)), ("the others hold", worst_verdict(holds))],
    }


def added_table():
    r"""RoPE with one addition each, three seeds: what was predicted of the rise, and what came."""
    rows, said = [], addition_verdicts()
    for name in [arm for arm in ADDED["methods"] if "," not in arm]:
        losses = ends(name)[:SEEDS]
        rows.append([name, cell(losses[:, 0]), cell(risen(losses)), outcomes_of(said.get(name, ()))])
    return table(["", f"at {L}", f"rise to {LONGEST}", "predicted"], rows)


def budget_table():
    r"""A method for each place and none, by the steps of their training: the loss at L, and the rise."""
    losses = {method: [ends(arm)[:SEEDS] for arm in budgets(method)] for method in ONE_A_PLACE}
    rows = [[title(m), *(f"{cell(x[:, 0])}, {cell(risen(x))}" for x in each)] for m, each in losses.items()]
    steps = [TEXT["settings"]["steps"], *(int(arm.split()[-2]) for arm in budgets("rope")[1:])]
    return table(["", *(f"{count:,} steps" for count in steps)], rows)


def budget_outcomes():
    r"""Give the prose what became of the prediction on longer training, and two intervals."""
    say("scaling_budget", outcomes_of(addition_verdicts()["budget"]).replace("**", ""))
    say("scaling_louder", interval(risen(ends("scaled logits")) - risen(ends("RoPE")), seeds=SEEDS))
    say("scaling_alibi", interval(risen(ends("alibi, 8000 steps")), seeds=SEEDS))
