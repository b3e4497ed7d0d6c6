// Reads and writes FlatBuffers: the parts of the format that Arrow's messages use.

import { decode, encode } from "./utf8.js";

/** A table of a message. `at`: its position. */
export class Flat {
    constructor(bytes, at) {
        this.bytes = bytes;
        this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
        this.at = at;
        this.vtable = at - this.view.getInt32(at, true);
        this.vtableSize = this.view.getUint16(this.vtable, true);
    }

    static root(bytes) {
        return new Flat(bytes, new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true));
    }

    /** The position of a field. 0 if the table does not have it. */
    position(field) {
        const entry = 4 + 2 * field;
        const offset = entry < this.vtableSize ? this.view.getUint16(this.vtable + entry, true) : 0;
        return offset && this.at + offset;
    }

    /** Reads a number. `type`: as in the name of a method of DataView, such as "Int32" in `getInt32`. */
    number(field, type, otherwise = 0) {
        const at = this.position(field);
        return at ? this.view[`get${type}`](at, true) : otherwise;
    }

    /** Reads a 64-bit number. 0 if the table does not have the field. */
    long(field) {
        const at = this.position(field);
        return at ? Number(this.view.getBigInt64(at, true)) : 0;
    }

    /** The position of the object to which a field refers. 0 if the table does not have the field. */
    #target(field) {
        const at = this.position(field);
        return at && at + this.view.getUint32(at, true);
    }

    table(field) {
        const at = this.#target(field);
        return at ? new Flat(this.bytes, at) : null;
    }

    text(field) {
        const at = this.#target(field);
        return at ? decode(this.bytes, at + 4, at + 4 + this.view.getUint32(at, true)) : null;
    }

    tables(field) {
        const at = this.#target(field);
        const count = at ? this.view.getUint32(at, true) : 0;
        return Array.from({ length: count }, (_, index) => {
            const reference = at + 4 + 4 * index;
            return new Flat(this.bytes, reference + this.view.getUint32(reference, true));
        });
    }

    /** Reads pairs of 64-bit numbers. */
    pairs(field) {
        const at = this.#target(field);
        const count = at ? this.view.getUint32(at, true) : 0;
        const number = (position) => Number(this.view.getBigInt64(position, true));
        return Array.from({ length: count }, (_, index) => [number(at + 4 + 16 * index), number(at + 12 + 16 * index)]);
    }
}

// Writing: a node is a function that appends an object to a Writer, and returns the position of the object.

class Writer {
    bytes = new Uint8Array(1024);
    length = 0;

    align(to) {
        this.length += -this.length & (to - 1);
    }

    /** Grows the buffer so that `count` bytes more fit. */
    reserve(count) {
        while (this.length + count + 16 > this.bytes.length) {
            const larger = new Uint8Array(this.bytes.length * 2);
            larger.set(this.bytes);
            this.bytes = larger;
        }
        this.view = new DataView(this.bytes.buffer);
    }
}

const SIZES = { Uint8: 1, Int16: 2, Int32: 4, BigInt64: 8 };

/** A node for a table. `fields` maps the number of each field to a pair, such as ["Int32", 5], or to a node. The types
 * are those of `number`. */
export const table = (fields) => (out) => {
    const numbers = Object.keys(fields).map(Number);
    const count = numbers.length ? Math.max(...numbers) + 1 : 0;
    out.align(2);
    out.reserve(4 + 2 * count + 4 + 16 * count + 16);
    const vtable = out.length;
    out.length += 4 + 2 * count;
    out.align(8);
    const at = out.length;
    out.view.setInt32(at, at - vtable, true);
    out.length += 4;
    const references = [];
    for (const number of numbers) {
        const field = fields[number];
        const size = typeof field === "function" ? 4 : SIZES[field[0]];
        out.align(size);
        out.view.setUint16(vtable + 4 + 2 * number, out.length - at, true);
        if (typeof field === "function") references.push([out.length, field]);
        else out.view[`set${field[0]}`](out.length, field[1], true);
        out.length += size;
    }
    out.view.setUint16(vtable, 4 + 2 * count, true);
    out.view.setUint16(vtable + 2, out.length - at, true);
    for (const [reference, node] of references) {
        const target = node(out);
        out.view.setUint32(reference, target - reference, true);
    }
    return at;
};

export const text = (value) => (out) => {
    const bytes = encode(value);
    out.align(4);
    out.reserve(bytes.length + 8);
    const at = out.length;
    out.view.setUint32(at, bytes.length, true);
    out.bytes.set(bytes, at + 4);
    out.length += 4 + bytes.length + 1;
    return at;
};

export const tables = (nodes) => (out) => {
    out.align(4);
    out.reserve(4 + 4 * nodes.length);
    const at = out.length;
    out.view.setUint32(at, nodes.length, true);
    out.length += 4 + 4 * nodes.length;
    nodes.forEach((node, index) => {
        const target = node(out);
        const reference = at + 4 + 4 * index;
        out.view.setUint32(reference, target - reference, true);
    });
    return at;
};

/** A node for pairs of 64-bit numbers. */
export const pairs = (values) => (out) => {
    out.reserve(16 * values.length + 16);
    // The pairs follow the 4 bytes of their count, and must be at a multiple of 8.
    out.length += (4 - out.length) & 7;
    const at = out.length;
    out.view.setUint32(at, values.length, true);
    values.flat().forEach((value, index) => out.view.setBigInt64(at + 4 + 8 * index, BigInt(value), true));
    out.length += 4 + 16 * values.length;
    return at;
};

/** The bytes of a FlatBuffer with this root. */
export function flatbuffer(root) {
    const out = new Writer();
    out.reserve(16);
    out.length = 8;
    const at = root(out);
    out.align(8);
    out.view.setUint32(0, at, true);
    return out.bytes.slice(0, out.length);
}
