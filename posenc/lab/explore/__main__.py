import sys

from posenc.lab.explore.core import main

sys.exit(main(sys.argv[1:]))
