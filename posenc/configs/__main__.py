r"""`python -m posenc.configs config.json [--length N]` prints what a configuration says about position."""

import argparse
import sys

from . import read


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="python -m posenc.configs", description=__doc__.partition("` ")[2])
    parser.add_argument("config", help="the path of a config.json")
    parser.add_argument("--length", type=int, help="tokens to look at")
    options = parser.parse_args(arguments)
    try:
        model = read(options.config)
        print(model if options.length is None else model.at(options.length))
    except (TypeError, ValueError) as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
