r"""What a config.json says of position, as a page: python -m posenc.configs config.json [--length N]."""

import argparse

from . import read, text

parser = argparse.ArgumentParser("python -m posenc.configs", description=__doc__.split(":")[0])
parser.add_argument("config", help="a config.json, or the folder of one")
parser.add_argument("--length", type=int, help="of a text, in tokens: what follows there")
options = parser.parse_args()
try:
    print(text(read(options.config), options.length))
except (OSError, TypeError, ValueError) as error:
    raise SystemExit(f"error: {error}") from None
