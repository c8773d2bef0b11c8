"""`python -m slipstream` is the `slipstream` command."""

from __future__ import annotations

import sys

from slipstream.cli import main

sys.exit(main())
