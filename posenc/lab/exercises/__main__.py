import sys

from posenc.lab.exercises.grade import main

sys.exit(main())
