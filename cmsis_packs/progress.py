"""What a user sees of a long job."""

from __future__ import annotations


class Progress:
    """Receives what happens; this one shows nothing. Methods may be called from several threads."""

    def say(self, text: str) -> None:
        """A line that stays: something was done."""

    def expect(self, count: int) -> None:
        """So many more bytes are to be downloaded (negative: fewer)."""

    def advance(self, count: int) -> None:
        """So many bytes have arrived."""
