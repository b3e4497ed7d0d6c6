"""Reads and writes Flatbuffers, as far as the messages of an Arrow IPC stream need them."""

import struct


class FlatTable:
    """A table inside a flatbuffer. Fields have their numbers in Arrow's schema files."""

    __slots__ = ("buffer", "position", "_vtable", "_vtable_bytes")

    def __init__(self, buffer, position):
        self.buffer = buffer
        self.position = position
        self._vtable = position - struct.unpack_from("<i", buffer, position)[0]
        self._vtable_bytes = struct.unpack_from("<H", buffer, self._vtable)[0]

    @classmethod
    def root(cls, buffer):
        return cls(buffer, struct.unpack_from("<I", buffer, 0)[0])

    def _field(self, number):
        slot = 4 + 2 * number
        if slot >= self._vtable_bytes:
            return 0
        offset = struct.unpack_from("<H", self.buffer, self._vtable + slot)[0]
        return self.position + offset if offset else 0

    def _target(self, number):
        at = self._field(number)
        return at + struct.unpack_from("<I", self.buffer, at)[0] if at else 0

    def number(self, number, code, default=0):
        """Reads a scalar. `code`: its `struct` code."""
        at = self._field(number)
        return struct.unpack_from("<" + code, self.buffer, at)[0] if at else default

    def table(self, number):
        at = self._target(number)
        return FlatTable(self.buffer, at) if at else None

    def text(self, number):
        at = self._target(number)
        if not at:
            return None
        count = struct.unpack_from("<I", self.buffer, at)[0]
        return bytes(self.buffer[at + 4 : at + 4 + count]).decode()

    def tables(self, number):
        """The elements of a vector of tables."""
        at = self._target(number)
        if not at:
            return []
        count = struct.unpack_from("<I", self.buffer, at)[0]
        slots = range(at + 4, at + 4 + 4 * count, 4)
        return [
            FlatTable(self.buffer, slot + struct.unpack_from("<I", self.buffer, slot)[0])
            for slot in slots
        ]

    def pairs(self, number):
        """The elements of a vector of structs of two 64-bit numbers."""
        at = self._target(number)
        if not at:
            return []
        count = struct.unpack_from("<I", self.buffer, at)[0]
        numbers = struct.unpack_from(f"<{2 * count}q", self.buffer, at + 4)
        return list(zip(numbers[::2], numbers[1::2]))


def flatbuffer(root):
    """The bytes of a flatbuffer whose root is the table that `root` writes."""
    out = bytearray(4)
    struct.pack_into("<I", out, 0, root(out))
    return bytes(out)


def table(fields):
    """A writer of a table. `fields`: number to (`struct` code, value), or to (None, writer)."""

    def write(out):
        _align(out, 8)
        count = max(fields, default=-1) + 1
        vtable = len(out)
        out.extend(bytes(4 + 2 * count))
        _align(out, 8)
        start = len(out)
        out.extend(bytes(4))
        struct.pack_into("<i", out, start, start - vtable)
        references = []
        for number, (code, value) in fields.items():
            size = struct.calcsize(code or "I")
            _align(out, size)
            at = len(out)
            out.extend(struct.pack("<" + code, value) if code else bytes(4))
            struct.pack_into("<H", out, vtable + 4 + 2 * number, at - start)
            if code is None:
                references.append((at, value))
        struct.pack_into("<HH", out, vtable, 4 + 2 * count, len(out) - start)
        _resolve(out, references)
        return start

    return write


def text(value):
    """A writer of a string."""

    def write(out):
        data = value.encode()
        _align(out, 4)
        start = len(out)
        out.extend(struct.pack("<I", len(data)) + data + b"\0")
        return start

    return write


def tables(writers):
    """A writer of a vector of tables."""

    def write(out):
        _align(out, 4)
        start = len(out)
        out.extend(struct.pack("<I", len(writers)) + bytes(4 * len(writers)))
        _resolve(out, [(start + 4 + 4 * index, writer) for index, writer in enumerate(writers)])
        return start

    return write


def pairs(values):
    """A writer of a vector of structs of two 64-bit numbers."""

    def write(out):
        # The elements, after the count, are aligned to 8 bytes.
        _align(out, 8)
        out.extend(bytes(4))
        start = len(out)
        out.extend(struct.pack("<I", len(values)))
        for first, second in values:
            out.extend(struct.pack("<qq", first, second))
        return start

    return write


def _resolve(out, references):
    for at, writer in references:
        target = writer(out)
        struct.pack_into("<I", out, at, target - at)


def _align(out, size):
    out.extend(bytes(-len(out) % size))
