"""`python -m elastic_runtime.ps`: one parameter server.

It ends without winding the interpreter down: nothing is left to do then, and LLVM takes seconds for it.
"""

import logging
import os

from elastic_runtime.ps.app import main
from elastic_runtime.spec.entry import outcome

code = outcome(main)
logging.shutdown()
os._exit(code)
