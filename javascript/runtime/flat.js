// Reads and writes FlatBuffers, as far as Arrow's messages need them.

import { decode, encode } from "./utf8.js";

/** A table of a message. */
export class Flat {
    constructor(bytes, at) {
        this.bytes = bytes;
        this.view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
        this.at = at;
        this.fields = at - this.view.getInt32(at, true);
        this.size = this.view.getUint16(this.fields, true);
    }

    static root(bytes) {
        return new Flat(bytes, new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true));
    }

    /** The position of a field. 0 if the table does not have it. */
    place(field) {
        const entry = 4 + 2 * field;
        const offset = entry < this.size ? this.view.getUint16(this.fields + entry, true) : 0;
        return offset && this.at + offset;
    }

    /** Reads a number. `method`: the type in the names of DataView's methods, such as "Int32". */
    number(field, method, otherwise = 0) {
        const at = this.place(field);
        return at ? this.view[`get${method}`](at, true) : otherwise;
    }

    long(field) {
        const at = this.place(field);
        return at ? Number(this.view.getBigInt64(at, true)) : 0;
    }

    #target(field) {
        const at = this.place(field);
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
            const place = at + 4 + 4 * index;
            return new Flat(this.bytes, place + this.view.getUint32(place, true));
        });
    }

    /** Reads pairs of 64-bit numbers. */
    pairs(field) {
        const at = this.#target(field);
        const count = at ? this.view.getUint32(at, true) : 0;
        const number = (place) => Number(this.view.getBigInt64(place, true));
        return Array.from({ length: count }, (_, index) => [number(at + 4 + 16 * index), number(at + 12 + 16 * index)]);
    }
}

// Writing: a node is a function that appends an object to a Writer, and returns the position at which it
// begins.

class Writer {
    bytes = new Uint8Array(1024);
    length = 0;

    align(to) {
        this.length += -this.length & (to - 1);
    }

    room(count) {
        while (this.length + count + 16 > this.bytes.length) {
            const more = new Uint8Array(this.bytes.length * 2);
            more.set(this.bytes);
            this.bytes = more;
        }
        this.view = new DataView(this.bytes.buffer);
    }
}

const SIZES = { Uint8: 1, Int16: 2, Int32: 4, BigInt64: 8 };

/** A node for a table. `fields`: the number of each field to [method of DataView, value], or to a node. */
export const table = (fields) => (out) => {
    const numbers = Object.keys(fields).map(Number);
    const count = numbers.length ? Math.max(...numbers) + 1 : 0;
    out.align(2);
    out.room(4 + 2 * count + 4 + 16 * count + 16);
    const vtable = out.length;
    out.length += 4 + 2 * count;
    out.align(8);
    const at = out.length;
    out.view.setInt32(at, at - vtable, true);
    out.length += 4;
    const waiting = [];
    for (const number of numbers) {
        const field = fields[number];
        const size = typeof field === "function" ? 4 : SIZES[field[0]];
        out.align(size);
        out.view.setUint16(vtable + 4 + 2 * number, out.length - at, true);
        if (typeof field === "function") waiting.push([out.length, field]);
        else out.view[`set${field[0]}`](out.length, field[1], true);
        out.length += size;
    }
    out.view.setUint16(vtable, 4 + 2 * count, true);
    out.view.setUint16(vtable + 2, out.length - at, true);
    for (const [place, node] of waiting) {
        const target = node(out);
        out.view.setUint32(place, target - place, true);
    }
    return at;
};

export const text = (value) => (out) => {
    const bytes = encode(value);
    out.align(4);
    out.room(bytes.length + 8);
    const at = out.length;
    out.view.setUint32(at, bytes.length, true);
    out.bytes.set(bytes, at + 4);
    out.length += 4 + bytes.length + 1;
    return at;
};

export const tables = (nodes) => (out) => {
    out.align(4);
    out.room(4 + 4 * nodes.length);
    const at = out.length;
    out.view.setUint32(at, nodes.length, true);
    out.length += 4 + 4 * nodes.length;
    nodes.forEach((node, index) => {
        const target = node(out);
        const place = at + 4 + 4 * index;
        out.view.setUint32(place, target - place, true);
    });
    return at;
};

/** A node for pairs of 64-bit numbers. */
export const pairs = (values) => (out) => {
    out.room(16 * values.length + 16);
    // The pairs begin at a multiple of 8, after the 4 bytes of their number.
    out.length += (4 - out.length) & 7;
    const at = out.length;
    out.view.setUint32(at, values.length, true);
    values.flat().forEach((value, index) => out.view.setBigInt64(at + 4 + 8 * index, BigInt(value), true));
    out.length += 4 + 16 * values.length;
    return at;
};

/** The bytes of a message with this root. */
export function flatbuffer(root) {
    const out = new Writer();
    out.room(16);
    out.length = 8;
    const at = root(out);
    out.align(8);
    out.view.setUint32(0, at, true);
    return out.bytes.slice(0, out.length);
}
