"""`python -m manydesks.runner IN`: as `manydesks-runner`."""

from __future__ import annotations

import sys

from manydesks.runner.main import main

sys.exit(main())
