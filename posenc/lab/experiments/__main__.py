import sys

from posenc.lab.experiments.command import main

sys.exit(main())
