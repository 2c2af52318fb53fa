import sys

from posenc.lab.experiments.report import add_command
from posenc.lab.train.command import in_one_line, main

sys.exit(in_one_line(lambda: main(others=[add_command])))
