r"""Checkpoints: one file a run, written whole or not at all, and read without running any code in it."""

import dataclasses
from pathlib import Path

import torch

from posenc.lab.train.files import replacing
from posenc.lab.train.settings import Settings
from posenc.lab.train.tasks import load_corpus
from posenc.lab.train.tiny import Model, build

FORMAT = "posenc checkpoint 2"


def describe(method: str, settings: Settings, seed: int, task: str, options: dict | None = None) -> dict:
    """What must agree between a checkpoint and the run that goes on from it."""
    corpus = load_corpus().sha256 if task in ("text", "masked") else None
    facts = {"method": method, "options": options or {}, "task": task, "seed": seed, "corpus": corpus}
    return facts | dataclasses.asdict(settings)


def write_checkpoint(path: Path, state: dict) -> None:
    """Write a checkpoint in one move: whoever reads finds the old one or the new one, never a half."""
    with replacing(path) as file:
        torch.save({"format": FORMAT} | state, file)


def read_checkpoint(path: str | Path, facts: dict | None = None) -> dict:
    r"""Read what `write_checkpoint` wrote, without running any code in it; of the run that `facts` describes, if given.

    Errors: FileNotFoundError; ValueError for a truncated or foreign file, and for another run's, naming what differs.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"path={str(path)!r}: no such checkpoint")
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
        if state["format"] != FORMAT:
            raise ValueError(f"its format is {state['format']!r}, not {FORMAT!r}")
    except Exception as error:  # torch raises what the damaged bytes happen to lead to
        words = f"{path} is no whole posenc checkpoint ({type(error).__name__}: {str(error)[:80]})"
        raise ValueError(f"{words}; it is left as it is. Move it away, or name another file") from error
    run = state["run"]
    differ = [f"{key}={run.get(key)!r}, not {ours!r}" for key, ours in (facts or run).items() if run.get(key) != ours]
    if differ:
        raise ValueError(f"{path} is another run's: {'; '.join(differ)}. It is left as it is; name another file")
    return state


def load(path: str | Path) -> tuple[Model, dict]:
    r"""The model that a checkpoint holds, and its history: (model, history), as `train` returns them.

    Errors: as `read_checkpoint`; ValueError too for a model of a text that this Python does not have.
    """
    state = read_checkpoint(path)
    fields = dict(state["run"])
    method, options, task, seed, corpus = (fields.pop(key) for key in ("method", "options", "task", "seed", "corpus"))
    if corpus is not None and corpus != load_corpus().sha256:
        words = "another text than this Python's, so its tokens may be other characters"
        raise ValueError(f"{path} was trained on {words}; the Python that trained it has its text")
    settings = Settings(**fields)
    model = build(method, settings, task, seed, options)
    model.load_state_dict(state["model"])
    history = {"loss": state["losses"], "seconds": state["seconds"], "settings": settings, "device": "cpu"}
    return model.eval(), history | {"seed": seed, "task": task}
