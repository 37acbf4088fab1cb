"""In-memory twins of the adapters: the same behaviour on a virtual clock, and strict where AWS is strict.

They are held to the same contract tests as the real ones. Deterministic: no threads, no randomness.
"""

from duebook.adapters.memory.old import (
    MemoryBus,
    MemoryQueue,
    MemoryQueues,
    MemorySchedules,
    MemoryTable,
    MemoryWorkflow,
    conflict,
)

__all__ = [
    "MemoryBus",
    "MemoryQueue",
    "MemoryQueues",
    "MemorySchedules",
    "MemoryTable",
    "MemoryWorkflow",
    "conflict",
]
