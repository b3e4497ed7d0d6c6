"""Calls the host. Converts values of the types in wit/entry.wit to and from their form in memory (the canonical
ABI of the component model).

The built-in module `_host` knows only numbers and addresses. `_host.call` takes and returns bytes. The bytes
that it takes begin with the number of an operation or of a function of the host. The arguments follow.
"""

import struct

import _host

# The numbers of operations, and of the host's first function (see imports.txt).
_COPY, _TAKE, _PUT, _PARAMETERS, _RETURN, _FIRST_FUNCTION = 0, 1, 2, 3, 4, 16


def _pack(*numbers):
    return struct.pack(f"<{len(numbers)}I", *numbers)


def _number(data):
    return struct.unpack("<I", data)[0]


def peek(address, layout):
    """The numbers at an address. `layout`: a format of `struct`, without implicit padding."""
    return struct.unpack("<" + layout, _host.call(_pack(_COPY, address, struct.calcsize("<" + layout))))


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
    """Reads a string that the guest owns, and frees it."""
    return take(address, length).decode()


def texts(address, count):
    """Reads a list of strings that the guest owns, and frees it."""
    return [text(*element) for element in elements(address, count)]


def elements(address, count, layout="II"):
    """The elements of a list, as tuples of numbers. Frees the list, but not the memory to which the numbers
    refer."""
    return list(struct.iter_unpack("<" + layout, take(address, count * struct.calcsize("<" + layout))))


def returned_elements(returned, layout):
    """The elements of a list that a function returned: see `elements`."""
    return elements(*struct.unpack("<II", returned), layout)


class Host:
    """Calls the functions of the host by their numbers."""

    def __init__(self, functions):
        """`functions`: interfaces and names as for `call`, in the order of imports.txt."""
        self._numbers = {function: _FIRST_FUNCTION + index for index, function in enumerate(functions)}

    def call(self, function, *numbers):
        """Calls a core WebAssembly function. `function`: the interface (without version) and the name, such as
        "host log". Returns a number, or None for a function without a return value."""
        returned = _host.call(_pack(self._numbers[function], *numbers))
        return _number(returned) if returned else None

    def has(self, function):
        return function in self._numbers

    def returned(self, size, function, *numbers):
        """Calls a function that writes its return value to an address. Returns the `size` bytes of this value."""
        address = put(bytes(size))
        self.call(function, *numbers, address)
        return take(address, size)

    def text(self, function):
        """Calls a function that has no parameters and returns a string."""
        return text(*struct.unpack("<II", self.returned(8, function)))

    def call_with(self, function, *values):
        """Calls a function with strings and numbers. The last of `values` is the size of the return value. Returns
        the same as `returned`, or as `call` if the size is 0."""
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


class KeptMemory:
    """Memory that is freed later. The host reads a return value only after the Python function has returned,
    so the memory of the value must stay allocated until the next call."""

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
        address = self.put(b"".join(data))
        numbers = []
        for value in data:
            numbers += (address, len(value))
            address += len(value)
        return self.put(_pack(*numbers))

    def failure(self, message):
        """Stores the `result::err(string)` that `init` and `run` return. Returns its address."""
        data = message.encode("utf-8", "backslashreplace")
        return self.put(_pack(1, self.put(data), len(data), 0, 0))

    def named(self, name, handle):
        """The bytes of a tuple of a string and a handle, as an element of a list."""
        data = name.encode()
        return _pack(self.put(data), len(data), handle)
