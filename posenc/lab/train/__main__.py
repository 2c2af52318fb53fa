import sys

from posenc.lab.train.command import in_one_line, main

sys.exit(in_one_line(main))
