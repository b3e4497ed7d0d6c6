"""Calls the host by addresses: converts values of the contract to and from their form in memory (the
canonical ABI of the component model).

The module `_host` below the interpreter knows only addresses. `_host.call` takes bytes: the number of an
operation or function, then numbers or bytes. It returns bytes.
"""

import struct

import _host

_COPY, _TAKE, _PUT, _PARAMETERS, _RETURN, _FIRST = 0, 1, 2, 3, 4, 16


def _pack(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _number(answer):
    return struct.unpack("<I", answer)[0]


def peek(address, form):
    """The numbers at an address. `form`: a format of `struct`, without implicit padding."""
    return struct.unpack("<" + form, _host.call(_pack(_COPY, address, struct.calcsize("<" + form))))


def take(address, length):
    """Returns the bytes at an address, and frees the memory there."""
    return _host.call(_pack(_TAKE, address, length))


def put(data):
    """Copies the bytes. Returns the address of the copy, which the caller must free."""
    return _number(_host.call(_pack(_PUT) + data))


def free(address):
    take(address, 0)


def parameters():
    """The address of the parameters of `run`."""
    return _number(_host.call(_pack(_PARAMETERS)))


def give(address):
    """Sets the address of the running function's return value."""
    _host.call(_pack(_RETURN, address))


def text(address, length):
    """Reads a string that this side owns, and frees it."""
    return take(address, length).decode()


def texts(address, count):
    """Reads a list of strings that this side owns, and frees it."""
    return [text(*pair) for pair in pairs(address, count)]


def pairs(address, count, form="II"):
    """The elements of a list, as tuples of numbers. Frees the list, but not the memory to which the numbers
    refer."""
    return list(struct.iter_unpack("<" + form, take(address, count * struct.calcsize("<" + form))))


def take_list(returned, form):
    """The elements of a returned list: see `pairs`."""
    return pairs(*struct.unpack("<II", returned), form)


class Host:
    """Calls the functions of the host by their numbers."""

    def __init__(self, lines):
        self._numbers = {line: _FIRST + number for number, line in enumerate(lines)}

    def call(self, function, *numbers):
        """Calls a core WebAssembly function. `function`: its interface (without version) and name, such as
        "host log"."""
        answer = _host.call(_pack(self._numbers[function], *numbers))
        return _number(answer) if answer else None

    def has(self, function):
        return function in self._numbers

    def returned(self, size, function, *numbers):
        """Calls a function that writes its return value to an address. Returns the bytes of that value."""
        at = put(bytes(size))
        self.call(function, *numbers, at)
        return take(at, size)

    def text(self, function):
        """Calls a function that has no parameters and returns a string."""
        return text(*struct.unpack("<II", self.returned(8, function)))

    def given(self, function, *values):
        """Calls a function with strings and numbers: see `returned`. The last of `values` is the size of the
        return value."""
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
    """The memory of a return value. The host reads it after the interpreter has stopped, so it is freed
    later."""

    def __init__(self):
        self._addresses = []

    def put(self, data):
        self._addresses.append(put(data))
        return self._addresses[-1]

    def free(self):
        while self._addresses:
            free(self._addresses.pop())

    def strings(self, values):
        """Stores a list of strings. Returns its address."""
        data = [value.encode() for value in values]
        at = self.put(b"".join(data))
        numbers = []
        for value in data:
            numbers += (at, len(value))
            at += len(value)
        return self.put(_pack(*numbers))

    def failure(self, words):
        """Stores `result::err(string)`, as `init` and `run` return it. Returns its address."""
        data = words.encode("utf-8", "backslashreplace")
        return self.put(_pack(1, self.put(data), len(data), 0, 0))

    def named(self, name, handle):
        """An element of a list of tuples of a string and a handle."""
        data = name.encode()
        return _pack(self.put(data), len(data), handle)
