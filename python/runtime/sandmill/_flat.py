"""Reads and writes those parts of FlatBuffers that the messages of an Arrow IPC stream need."""

import struct


class FlatTable:
    """A table inside a flatbuffer. Fields are named by their numbers in Arrow's schema files (.fbs)."""

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
        """The position of a field. 0 if the table does not have it."""
        slot = 4 + 2 * number
        if slot >= self._vtable_bytes:
            return 0
        offset = struct.unpack_from("<H", self.buffer, self._vtable + slot)[0]
        return self.position + offset if offset else 0

    def _target(self, number):
        """The position to which a reference field points. 0 if the table does not have the field."""
        position = self._field(number)
        return position + struct.unpack_from("<I", self.buffer, position)[0] if position else 0

    def number(self, number, code, default=0):
        """Reads a scalar. `code`: its `struct` code."""
        position = self._field(number)
        return struct.unpack_from("<" + code, self.buffer, position)[0] if position else default

    def table(self, number):
        position = self._target(number)
        return FlatTable(self.buffer, position) if position else None

    def text(self, number):
        position = self._target(number)
        if not position:
            return None
        length = struct.unpack_from("<I", self.buffer, position)[0]
        return bytes(self.buffer[position + 4 : position + 4 + length]).decode()

    def tables(self, number):
        """The elements of a vector of tables."""
        position = self._target(number)
        if not position:
            return []
        count = struct.unpack_from("<I", self.buffer, position)[0]
        references = range(position + 4, position + 4 + 4 * count, 4)
        return [
            FlatTable(self.buffer, reference + struct.unpack_from("<I", self.buffer, reference)[0])
            for reference in references
        ]

    def pairs(self, number):
        """The elements of a vector of structs of two 64-bit numbers."""
        position = self._target(number)
        if not position:
            return []
        count = struct.unpack_from("<I", self.buffer, position)[0]
        numbers = struct.unpack_from(f"<{2 * count}q", self.buffer, position + 4)
        return list(zip(numbers[::2], numbers[1::2]))


def flatbuffer(write_root):
    """The bytes of a flatbuffer. `write_root`: the writer of its root table.

    A writer is a function that appends to a bytearray and returns the position of what it wrote.
    """
    out = bytearray(4)
    struct.pack_into("<I", out, 0, write_root(out))
    return bytes(out)


def table(fields):
    """A writer of a table. `fields`: a dict of field numbers to (`struct` code, value), or to (None, writer)."""

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
            position = len(out)
            out.extend(struct.pack("<" + code, value) if code else bytes(4))
            struct.pack_into("<H", out, vtable + 4 + 2 * number, position - start)
            if code is None:
                references.append((position, value))
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
        # The elements must be aligned to 8 bytes. They follow the count, which takes 4 bytes.
        _align(out, 8)
        out.extend(bytes(4))
        start = len(out)
        out.extend(struct.pack("<I", len(values)))
        for first, second in values:
            out.extend(struct.pack("<qq", first, second))
        return start

    return write


def _resolve(out, references):
    """Writes the targets of references. `references`: pairs of the reference's position and the target's writer."""
    for position, writer in references:
        target = writer(out)
        struct.pack_into("<I", out, position, target - position)


def _align(out, size):
    out.extend(bytes(-len(out) % size))
