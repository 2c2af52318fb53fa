import sys

from posenc.lab.train.command import main

sys.exit(main())
