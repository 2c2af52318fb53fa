"""What the tests of training share: tiny settings."""

from posenc.lab.train import Settings

SIZES = {"dim": 16, "num_layers": 1, "num_heads": 2, "windows": 4}
TINY = Settings(**SIZES, length=16, batch=4, steps=6, warmup=2, multiples=(1, 2, 4), targets=8)
TINY_TASK = SIZES | {"length": 32, "batch": 4, "steps": 4, "warmup": 1}
