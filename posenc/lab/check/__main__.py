import sys

from posenc.lab.check.grade import main

sys.exit(main())
