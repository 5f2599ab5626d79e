# SPDX-License-Identifier: Apache-2.0
"""How much memory the machine has and how much a piece of work took."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType

import psutil

MIB = 1 << 20
GIB = 1 << 30


def machine_bytes() -> int:
    """Memory that this process may use: the machine's, or its control group's limit where that is lower."""
    total = int(psutil.virtual_memory().total)
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(limit).read_text()))
        except (OSError, ValueError):
            continue  # no such file, or the word "max"
    return total


class PeakMemory:
    """Context manager; afterwards `mib` is the largest resident size of the process while it was open.

    Linux keeps the figure itself and lets a process reset it. Elsewhere a thread looks every 20 ms and may miss a
    shorter peak.
    """

    def __init__(self) -> None:
        self.mib = 0.0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> PeakMemory:
        if not _reset_high_water():
            self._thread = threading.Thread(target=self._watch, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread is None:
            self.mib = _high_water_mib()
        else:
            self._stop.set()
            self._thread.join()

    def _watch(self) -> None:
        process = psutil.Process(os.getpid())
        while True:
            self.mib = max(self.mib, process.memory_info().rss / MIB)
            if self._stop.wait(0.02):
                return


def _reset_high_water() -> bool:
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return False
    return _high_water_mib() > 0


def _high_water_mib() -> float:
    try:
        for line in Path("/proc/self/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    except OSError:
        pass
    return 0.0
