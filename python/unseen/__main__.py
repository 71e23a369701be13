"""The console script unseen, and python -m unseen: the program itself."""

from __future__ import annotations

import os
import subprocess
import sys

from ._errors import Error
from ._program import binary


def main() -> int:
    """Runs the program with the arguments of this one. Where the system allows it, the program takes our place."""
    try:
        path = binary()
        if os.name != "nt":
            os.execv(path, ["unseen", *sys.argv[1:]])
        return subprocess.call([path, *sys.argv[1:]])
    except (Error, OSError) as e:
        print(f"unseen: {e}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:  # the program has had it too
        return 1


if __name__ == "__main__":
    sys.exit(main())
