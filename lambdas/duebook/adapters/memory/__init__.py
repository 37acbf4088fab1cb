"""In-memory twins of the adapters: the same behaviour on a virtual clock, and strict where AWS is strict.

They are held to the same contract tests as the real ones. Deterministic: no threads, no randomness, no clock but the
one they are given.
"""

from duebook.adapters.memory.bus import MemoryBus
from duebook.adapters.memory.hook import Hook, no_fault
from duebook.adapters.memory.queues import MemoryQueue, MemoryQueues, Message
from duebook.adapters.memory.schedules import MemorySchedules, conflict
from duebook.adapters.memory.stream import Change, Stream
from duebook.adapters.memory.table import PROJECTED, MemoryTable
from duebook.adapters.memory.workflow import MemoryWorkflow

__all__ = [
    "PROJECTED",
    "Change",
    "Hook",
    "MemoryBus",
    "MemoryQueue",
    "MemoryQueues",
    "MemorySchedules",
    "MemoryTable",
    "MemoryWorkflow",
    "Message",
    "Stream",
    "conflict",
    "no_fault",
]
