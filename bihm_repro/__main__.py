"""``python -m bihm_repro`` is ``bihm``."""

import sys

from bihm_repro.cli import main

sys.exit(main())
