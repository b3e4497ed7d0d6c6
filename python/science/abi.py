"""The host, by addresses: how values of the contract lie in this interpreter's memory (the component model's canonical ABI).

Under the interpreter is a module that knows addresses alone. `_host.call` hands it bytes: a number that says what is
wanted, then numbers or bytes; it hands bytes back.
"""

import struct

import _host

_COPY, _TAKE, _PUT, _PARAMETERS, _RETURN, _FIRST = 0, 1, 2, 3, 4, 16


def _pack(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _number(answer):
    return struct.unpack("<I", answer)[0]


def peek(address, form):
    """The numbers at an address. `form`: as of `struct`, without padding of its own."""
    return struct.unpack("<" + form, _host.call(_pack(_COPY, address, struct.calcsize("<" + form))))


def take(address, length):
    """The bytes at an address. The memory there is freed."""
    return _host.call(_pack(_TAKE, address, length))


def put(data):
    """The address of a copy of the bytes, which is the caller's to free."""
    return _number(_host.call(_pack(_PUT) + data))


def free(address):
    take(address, 0)


def parameters():
    """The address of what `run` was called with."""
    return _number(_host.call(_pack(_PARAMETERS)))


def give(address):
    """What the function that runs returns."""
    _host.call(_pack(_RETURN, address))


def text(address, length):
    """A string that is ours: it is freed."""
    return take(address, length).decode()


def texts(address, count):
    """A list of strings that is ours."""
    return [text(*pair) for pair in pairs(address, count)]


def pairs(address, count, form="II"):
    """The elements of a list, as tuples of numbers. The list is freed, and not what lies at the numbers."""
    return list(struct.iter_unpack("<" + form, take(address, count * struct.calcsize("<" + form))))


def take_list(returned, form):
    """The elements of a list that was returned: see `pairs`."""
    return pairs(*struct.unpack("<II", returned), form)


class Host:
    """The functions of the host, by their numbers."""

    def __init__(self, lines):
        self._numbers = {line: _FIRST + number for number, line in enumerate(lines)}

    def call(self, function, *numbers):
        """Calls a function of core WebAssembly. `function`: interface, without version, and name, as "host log"."""
        answer = _host.call(_pack(self._numbers[function], *numbers))
        return _number(answer) if answer else None

    def has(self, function):
        return function in self._numbers

    def returned(self, size, function, *numbers):
        """Calls a function that writes what it returns to an address. Returns the bytes."""
        at = put(bytes(size))
        self.call(function, *numbers, at)
        return take(at, size)

    def text(self, function):
        """What a function without parameters returns, a string."""
        return text(*struct.unpack("<II", self.returned(8, function)))

    def given(self, function, *values):
        """Calls with strings and numbers: see `returned`. `values` end with the size of what is returned."""
        *values, size = values
        numbers, lent = [], []
        for value in values:
            if isinstance(value, (str, bytes)):
                data = value.encode() if isinstance(value, str) else value
                lent.append(put(data))
                numbers += [lent[-1], len(data)]
            else:
                numbers.append(value)
        try:
            return self.returned(size, function, *numbers) if size else self.call(function, *numbers)
        finally:
            for address in lent:
                free(address)


class Kept:
    """What a function returned: the host reads it after the interpreter stopped, so that it is freed later."""

    def __init__(self):
        self._addresses = []

    def put(self, data):
        self._addresses.append(put(data))
        return self._addresses[-1]

    def free(self):
        while self._addresses:
            free(self._addresses.pop())

    def strings(self, values):
        """The address of a list of strings."""
        data = [value.encode() for value in values]
        at = self.put(b"".join(data))
        numbers = []
        for value in data:
            numbers += (at, len(value))
            at += len(value)
        return self.put(_pack(*numbers))

    def failure(self, words):
        """The address of `result::err(string)`, as `init` and `run` return it."""
        data = words.encode("utf-8", "backslashreplace")
        return self.put(_pack(1, self.put(data), len(data), 0, 0))

    def named(self, name, handle):
        """An element of a list of tuples of a string and a handle."""
        data = name.encode()
        return _pack(self.put(data), len(data), handle)
