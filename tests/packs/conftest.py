"""The fixtures of all tests of packs."""

from pack_server import project, server

__all__ = ["project", "server"]
