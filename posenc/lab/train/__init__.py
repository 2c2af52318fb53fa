r"""Tiny models, what they are trained on, the trainer, and fair tests of what it trained."""

from posenc.lab.train.checkpoints import load, read_checkpoint
from posenc.lab.train.settings import PRESETS, Settings, settings_for
from posenc.lab.train.tiny import build, encoding_maker, pick_device, sample
from posenc.lab.train.trainer import train, train_with

__all__ = ["PRESETS", "Settings", "build", "encoding_maker", "load", "pick_device", "read_checkpoint", "sample"]
__all__ += ["settings_for", "train", "train_with"]
