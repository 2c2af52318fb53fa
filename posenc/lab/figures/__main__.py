import sys

from posenc.lab.figures.pictures import main

sys.exit(main(sys.argv[1:]))
