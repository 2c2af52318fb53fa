r"""The book's explorables, one module a chapter. `posenc.lab.explore` says how they are declared.

python -m posenc.lab.figures pictures [rope.rotation_invariance ...]   draw the static pictures (needs Chromium)
python -m posenc.lab.figures check                                     fail if a picture shows another state
"""

import importlib
import pkgutil

from posenc.lab.explore import Explorable


def all_explorables() -> dict[str, Explorable]:
    r"""Every explorable of this folder, by id (`rope.rotation_invariance`), sorted."""
    modules = sorted(info.name for info in pkgutil.iter_modules(__path__) if not info.name.startswith("_"))
    return {id: e for module in modules for id, e in sorted(_explorables(module).items())}


def load(id: str) -> Explorable:
    r"""The explorable called `id`, such as `rope.rotation_invariance`.

    Raises ValueError for an id that is not there, with those that are.
    """
    module, _, name = id.partition(".")
    if not module.isidentifier() or not name.isidentifier() or module.startswith("_"):
        raise ValueError(f"explorable {id!r}: write <module>.<name>, such as rope.rotation_invariance")
    try:
        explorables = _explorables(module)
    except ModuleNotFoundError as error:
        if error.name != f"{__name__}.{module}":
            raise
        raise ValueError(f"explorable {id!r}: there is no posenc/lab/figures/{module}.py") from None
    if id not in explorables:
        raise ValueError(f"explorable {id!r}: posenc/lab/figures/{module}.py has {list(explorables)}")
    return explorables[id]


def _explorables(module: str) -> dict[str, Explorable]:
    r"""The explorables that a module of this folder declares, by id. Those it imports go by the id of their own."""
    explorables = {}
    for name, value in vars(importlib.import_module(f"{__name__}.{module}")).items():
        if isinstance(value, Explorable) and value.id.startswith(f"{module}.") and not name.startswith("_"):
            if value.id != f"{module}.{name}":
                raise ValueError(
                    f"explorable {value.id!r} is called {name!r}: declare it with id={f'{module}.{name}'!r}"
                )
            explorables[value.id] = value
    return explorables
