"""How images share the processor: whole images side by side, each on one thread.

OpenCV would split every step of one image over all cores, and wait at its end for the slowest. Many
images at once use the same cores without waiting, and cost some percent less in all.
"""

import os

import cv2


def cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not everywhere, and less than all in a container
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def one_an_image() -> None:
    """From now on, and in all of this process, OpenCV works on the thread that calls it.

    What it computes is the same on any number of threads.
    """
    cv2.setNumThreads(1)
