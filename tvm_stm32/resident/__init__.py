"""A process that keeps what commands import, TVM above all, and runs each in a child of its own.

``tvm-stm32 --resident compile ...`` is how build tools call the generator: ``client`` asks the process that serves this
computer's user, starts one when there is none (only ``compile`` does), and runs the command itself when neither works.
``server`` forks a child for every request, so one command knows nothing of another. ``wire`` is what they say.

Nothing is shared between users, nothing listens on a network: the socket lies in a folder only its user may enter.
"""

VARIABLE = "TVM_STM32_RESIDENT"
"""Seconds the process stays without work; 0: there is none."""
