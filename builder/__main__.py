"""The entry point of `build-engine`, also `python -m slipstream.builder`.

Importing the command takes a while, and Ctrl-C may come then: nothing but `sys` is imported outside
of the guard.
"""

import sys


def main() -> int:
    """Exit code as `slipstream.builder.cli.main` gives it."""
    try:
        from slipstream.builder.cli import main as run

        return run()
    except KeyboardInterrupt:
        print("build-engine: error: interrupted; nothing was written", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
