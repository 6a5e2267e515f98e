"""A worker process that does not outlive the process that started it.

`multiprocessing` ends its children when their parent ends in order; a parent that is killed
leaves them at work. Each worker calls this once.
"""

import multiprocessing
import os
import threading


def end_with_parent() -> None:
    """Makes this process end when the one that started it does, however that ends."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True, name="parent").start()
