r"""Tables of the frozen ablations, for the chapters on methods that have several parts."""

from posenc.lab.experiments import load_results, mean_and_spread, verdict
from posenc.lab.write import signed_pm, table

TEXT = load_results("ablation_text")
NEEDLE = load_results("ablation_needle")


def ends() -> tuple[str, str]:
    r"""Names of the shortest test on text, as long as training, and of the longest."""
    lengths = TEXT["lengths"]
    return str(lengths[0]), str(lengths[-1])


def beside(arm: str, column: str, other: str = "rope") -> tuple[float, float]:
    r"""The loss of an arm less another's with the same seed: mean and standard deviation over seeds."""
    ours, theirs = (TEXT["methods"][name]["scores"][column] for name in (arm, other))
    return mean_and_spread([x - y for x, y in zip(ours, theirs, strict=True)])


def predicted(results: dict, arm: str) -> str:
    r"""What was predicted of an arm, and what became of it."""
    return f"{results['claims'][arm]}: {verdict(results, arm).outcome}"


def text_table(arms: dict[str, str], digits: int = 2):
    r"""A row for each {arm: words}: loss beside RoPE's, as trained and at the longest test, and what was predicted."""
    first, last = ends()
    rows = []
    for arm, words in arms.items():
        near, far = (signed_pm(*beside(arm, column), digits) for column in (first, last))
        rows.append([words, near, predicted(TEXT, arm), far])
    return table(["arm", f"beside RoPE, {first} characters", "predicted", f"beside RoPE, {last}"], rows)


def needle_table(arms: dict[str, str]):
    r"""A row for each {arm: words} and RoPE: shares of missed needles, and what was predicted."""
    rows = []
    for arm, words in ({"rope": "RoPE"} | arms).items():
        scores = NEEDLE["methods"][arm]["scores"]
        shares = (mean_and_spread(scores[test]) for test in ("in", "near", "far"))
        cells = [f"{100 * mean:.0f} ± {100 * spread:.0f}%" for mean, spread in shares]
        rows.append([words, *cells, predicted(NEEDLE, arm)])
    return table(["arm", "as trained", "long, near", "long, far", "predicted"], rows)
