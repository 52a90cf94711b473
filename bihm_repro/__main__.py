"""``python -m bihm_repro`` is ``bihm``."""

import sys

from bihm_repro.cli.main import main

sys.exit(main())
