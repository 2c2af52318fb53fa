r"""What do the trained layers of RSE do to stay local: raise lambda, or lower their content?

    python benchmarks/rse_rates.py

Trains RSE in both orders and with a softmax in the stick's place, three seeds each, and writes results/rse_rates.json:
for each layer lambda and the mean content, the scaled q.k of the visible pairs, before and after. Chapter: RSE.
"""

import record
import torch
from tqdm import tqdm

from posenc.lab.train import build, settings_for, train_with
from posenc.lab.train.tasks import load_corpus

ARMS = {"rse": {}, "rse_recent": {"order": "recent"}, "rse_softmax": {"stick": False}}
SEEDS = (0, 1, 2)


@torch.no_grad()
def layers(model, settings):
    """lambda and the mean content of each layer, on 16 windows of held-out text."""
    corpus, contents = load_corpus(), []
    windows = torch.stack([corpus.held_out[n * settings.length :][: settings.length] for n in range(16)])
    visible = torch.ones(settings.length, settings.length, dtype=torch.bool).tril()

    def content(module, arguments):
        q, k, _ = arguments
        contents.append((q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5)[..., visible].mean().item())

    penalties = [block.attention.encoding.bias for block in model.blocks]
    hooks = [penalty.register_forward_pre_hook(content) for penalty in penalties]
    model(windows)
    for hook in hooks:
        hook.remove()
    return {"rate": [penalty.rate.item() for penalty in penalties], "content": contents}


def main():
    settings = settings_for("lab")
    results = record.begun(__doc__, "rse_rates", "lab", settings)
    results |= {
        "question": "What do trained layers of RSE do to stay local: raise lambda, or lower their content?",
        "seeds": list(SEEDS),
        "arms": {arm: {"before": [], "after": []} for arm in ARMS},
    }
    for arm, seed in tqdm([(arm, seed) for arm in ARMS for seed in SEEDS]):
        found = results["arms"][arm]
        found["before"].append(layers(build("rse", settings, seed=seed, options=ARMS[arm]), settings))
        model, _ = train_with("rse", settings, seed, device="cpu", progress=False, options=ARMS[arm])
        found["after"].append(layers(model, settings))
    record.write(results)


if __name__ == "__main__":
    main()
