"""``python3 methods.py sync|async``: calls each public method of one of the clients on real machines."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

if __name__ == "__main__":
    if sys.argv[1:] == ["async"]:
        import methods_async

        asyncio.run(methods_async.main())
    else:
        import methods_sync

        methods_sync.main()
