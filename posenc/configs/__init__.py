r"""What a model's configuration says of position, read and run, without transformers: `read`."""

import json
import os
from pathlib import Path

from ..errors import UnsupportedError, nearest, shown
from .layers import Extent, Layer, Query, Rope, text
from .reading import Reading, table

__all__ = ["Extent", "Layer", "Query", "Reading", "Rope", "read", "table", "text"]


def read(config) -> Reading:
    r"""What a model's configuration says of position.

    Arguments:
        config: a dict, the path of a config.json or of its folder, or a configuration of transformers. Keys are read
            as the library's code reads them, older names too; where there are several models in one, text_config.
    Errors: TypeError, ValueError naming the key and its value; FileNotFoundError; UnsupportedError for a model type, a
        rope_type or a setting that is not read: nothing is guessed.
    Convention: a window of W keys holds the query's own, so that the farthest is W - 1 away; ModernBERT's
        local_attention=W sees W/2 on both sides, W + 1 keys in all.
    Chapter: Models that ship.
    """
    if isinstance(config, str | os.PathLike):
        path = Path(config) / "config.json" if os.path.isdir(config) else Path(config)
        try:
            config = json.loads(path.read_text("utf-8"))
        except (ValueError, RecursionError) as error:
            raise ValueError(f"config={str(path)!r} is not JSON: {error}") from None
    elif not isinstance(config, dict) and callable(getattr(config, "to_dict", None)):
        config = config.to_dict()
    if not isinstance(config, dict):
        raise TypeError(f"config={shown(config)} must be a dict, the path of a config.json or a PreTrainedConfig")
    known, name, text = table(), config.get("model_type"), config.get("text_config")
    if isinstance(text, dict):  # of several models in one, that which reads and writes text
        name, config = text.get("model_type") or known["texts"].get(name), text
    name = known["aliases"].get(name, name) if isinstance(name, str) else name
    if not isinstance(name, str) or name not in known["types"]:
        reason = next((reason for reason, names in known["uncovered"].items() if name in names), "is not known")
        close = nearest(name, known["types"]) if reason == "is not known" else ""
        raise UnsupportedError(f"model_type={shown(name)} {reason}; nothing is guessed.{close}")
    flat = config.get(known["types"][name].get("flat"))
    return Reading(name, config | flat if isinstance(flat, dict) else config)
