import sys

from posenc.lab.exercises import grade
from posenc.lab.exercises.bank import command

COMMANDS = {"exam": command.exam, "key": command.key}
name = sys.argv[1] if len(sys.argv) > 1 else ""
sys.exit(COMMANDS[name](sys.argv[2:]) if name in COMMANDS else grade.main())
