"""The embedded AWS: the real CDK app on a local emulator, with time that travels.

`EmbeddedAws` starts MiniStack as a process group of its own, `deploy` runs the
real CDK CLI against it, and `Clock` moves its time. Nothing in the product
knows about this package.
"""
