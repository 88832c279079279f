"""What both files of a batch say: good answers as they are read, the rest as counts and reasons."""

from collections.abc import Iterator, Set
from typing import BinaryIO

from resources.batch_lines import Body, ResultLine, TokenUsage, read_lines


class Answers:
    """The answers to the wanted requests; the order of lines does not matter.

    Of a request with several lines the first good one counts, else the first. `bad` has the reasons of those
    that no good line answers, once all files are read, and `codes` what refusing responses among them name.
    `usage` is that of all lines, since all are paid for; a line written twice is charged once. `calls` are
    the lines that used any.
    """

    def __init__(self, wanted: Set[str]) -> None:
        self._wanted = wanted
        self._good: set[str] = set()
        self._charged: set[str] = set()
        self.bad: dict[str, str] = {}
        self.codes: dict[str, str] = {}
        self.usage = TokenUsage()
        self.calls = 0
        self.unknown = 0
        self.doubled = 0
        self.unreadable = 0

    def read(self, file: BinaryIO) -> Iterator[tuple[str, Body]]:
        """The good answers of one file by custom_id, each request's once."""
        for line in read_lines(file):
            if line is None:
                self.unreadable += 1
                continue
            self._charge(line)
            if line.custom_id not in self._wanted:
                self.unknown += 1
                continue
            known = line.custom_id in self._good
            self.doubled += known or line.custom_id in self.bad
            if line.body is None:
                if not known and line.custom_id not in self.bad:
                    self.bad[line.custom_id] = line.reason
                    if line.code:
                        self.codes[line.custom_id] = line.code
            elif not known:
                self._good.add(line.custom_id)
                self.bad.pop(line.custom_id, None)
                yield line.custom_id, line.body

    def counts(self) -> dict[str, int]:
        """As they are kept with the batch."""
        return {
            "good": len(self._good),
            "bad": len(self.bad),
            "unknown": self.unknown,
            "doubled": self.doubled,
            "unreadable": self.unreadable,
        }

    def _charge(self, line: ResultLine) -> None:
        if line.line_id and line.line_id in self._charged:
            return
        self._charged.add(line.line_id)
        self.usage += line.usage
        self.calls += line.usage != TokenUsage()
