r"""Checkpoints: one file a run, written whole or not at all, and read without running any code in it."""

import contextlib
import json
import zipfile
from pathlib import Path

import torch

from posenc.errors import check_int, check_number
from posenc.lab.train.files import replacing
from posenc.lab.train.models import build
from posenc.lab.train.settings import LATER, Settings
from posenc.lab.train.tasks import load_corpus
from posenc.lab.train.tiny import Model

FORMAT = "posenc checkpoint 1"
PARTS = {
    "config": str,
    "step": int,
    "losses": torch.Tensor,
    "seconds": float | int,
    "batches": torch.Tensor,
    "model": dict,
    "optimizer": dict,
}


def describe(method: str, settings: Settings, seed: int, task: str, options: dict | None = None) -> str:
    """What must agree between a checkpoint and the run that goes on from it, as text."""
    if not isinstance(method, str):
        raise TypeError(f"checkpoint: method={method!r} must be a name then, a function can't be told from another")
    corpus = load_corpus().sha256 if task in ("text", "masked") else None
    facts = {"method": method, "options": options or {}, "task": task, "seed": seed, "corpus": corpus}
    return json.dumps(facts | {"settings": settings.as_dict()}, sort_keys=True)


def write_checkpoint(path: Path, state: dict) -> None:
    """Write a checkpoint in one move: whoever reads finds the old one or the new one, never a half."""
    with replacing(path) as file:
        torch.save({"format": FORMAT} | state, file)


def read_checkpoint(path: str | Path) -> dict:
    r"""Read what `write_checkpoint` wrote, without running any code in it.

    Errors: FileNotFoundError; ValueError for a truncated, altered or foreign file.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"path={str(path)!r}: no such checkpoint")
    try:
        with zipfile.ZipFile(path) as archive:
            altered = archive.testzip()  # torch.load takes a flipped bit for another number
        if altered is not None:
            raise ValueError(f"{altered} in it does not fit its checksum")
        state = torch.load(path, map_location="cpu", weights_only=True)
        check_state(state)
    except Exception as error:  # zipfile and torch raise what the damaged bytes happen to lead to
        raise ValueError(
            f"{path} is no whole posenc checkpoint ({type(error).__name__}: {str(error)[:80]}); it is left as it is. "
            f"Move it away, or name another file"
        ) from error
    return state


def check_same_run(path: Path, state: dict, config: str) -> None:
    """Raise ValueError, naming what differs, unless the state read from `path` is of the run that `config` tells."""
    if state["config"] == config:
        return
    theirs, ours = in_one(json.loads(state["config"])), in_one(json.loads(config))
    differences = [
        f"{key}={theirs.get(key)!r}, not {ours.get(key)!r}" for key in ours | theirs if theirs.get(key) != ours.get(key)
    ]
    raise ValueError(f"{path} is another run's: {'; '.join(differences)}. It is left as it is; name another file")


def in_one(facts):
    """A run's facts in one dict, its settings beside the others."""
    return {key: value for key, value in facts.items() if key != "settings"} | LATER | facts["settings"]


def check_state(state):
    """Raise unless `state` is what `write_checkpoint` was given, its parts of the right kinds and in agreement."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"it does not say that its format is {FORMAT!r}")
    missing = [name for name, kind in PARTS.items() if not isinstance(state.get(name), kind)]
    if missing:
        raise ValueError(f"it lacks {missing}")
    if not isinstance(state.get("read"), str | None):  # older ones lack it
        raise ValueError(f"its part 'read' is a {type(state['read']).__name__}")
    check_int("step", state["step"], minimum=0)
    check_number("seconds", state["seconds"], minimum=0)
    _, settings = facts_of(state)
    losses = state["losses"]
    if losses.shape != (state["step"],) or not losses.is_floating_point() or state["step"] > settings.steps:
        raise ValueError(f"it has losses {list(losses.shape)} for step {state['step']} of {settings.steps}")


def facts_of(state):
    """What a checkpoint says of its run, and the `Settings` of it."""
    facts = json.loads(state["config"])
    settings = {key: tuple(v) if isinstance(v, list) else v for key, v in facts["settings"].items()}
    return facts, Settings(**settings)


@contextlib.contextmanager
def naming(path):
    """While entered, what a checkpoint's parts don't fit is an error that names the file."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise ValueError(
            f"{path} does not fit the model of its settings ({why}); it is left as it is. Was it made by another "
            f"version of posenc?"
        ) from error


def check_sizes(weights, settings):
    """Raise before a model is built that these weights can't be of: damaged settings may ask for a million layers."""
    layers = len({key.split(".")[1] for key in weights if key.startswith("blocks.")})
    dim = weights["embedding.weight"].shape[1]
    if (layers, dim) != (settings.num_layers, settings.dim):
        raise ValueError(f"num_layers={settings.num_layers}, dim={settings.dim}, its weights are of {layers} and {dim}")


def check_moments(optimizer):
    """Raise unless what the optimizer keeps for each parameter has its shape: the fused one reads without looking."""
    for parameter, moments in optimizer.state.items():
        for name, value in moments.items():
            if not isinstance(value, torch.Tensor) or value.shape not in (parameter.shape, ()):
                raise ValueError(f"the optimizer's {name} of a parameter {list(parameter.shape)} has another shape")


def load(path: str | Path) -> tuple[Model, dict]:
    r"""The model that a checkpoint holds, and its history: (model, history), as `train` returns them.

    Errors: as `read_checkpoint`; ValueError too for a model of a text that this Python does not have.
    """
    state = read_checkpoint(path)
    facts, settings = facts_of(state)
    if facts.get("corpus") not in (None, load_corpus().sha256):
        raise ValueError(
            f"{path} was trained on another text than this Python's, so its tokens may be other characters; "
            f"it is left as it is. The Python that trained it has its text"
        )
    with naming(path):
        check_sizes(state["model"], settings)
        model = build(facts["method"], settings, facts["task"], facts["seed"], facts["options"])
        model.load_state_dict(state["model"])
    history = {
        "loss": state["losses"].tolist(),
        "seconds": state["seconds"],
        "settings": settings,
        "device": "cpu",
        "seed": facts["seed"],
        "task": facts["task"],
        "batches": state.get("read"),
    }
    return model.eval(), history
