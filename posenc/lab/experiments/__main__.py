import sys

from posenc.lab.experiments.command import main
from posenc.lab.train.command import in_one_line

sys.exit(in_one_line(main))
