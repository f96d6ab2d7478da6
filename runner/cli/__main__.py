"""python -m benchcard.runner.cli"""

from . import main

main()
