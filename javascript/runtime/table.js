// Tables: reads Arrow IPC streams to columns of JavaScript values, and writes them. Buffers are never
// compressed (see the contract).

import { Flat, flatbuffer, pairs, table, tables, text } from "./flat.js";
import { decode, encode } from "./utf8.js";

/** The values of a column: an array, with null for nulls. `kind`: the type as which the column is written. */
export class Column extends Array {
    // `map` and other methods return a plain array, which has no `kind`.
    static get [Symbol.species]() {
        return Array;
    }
}

function column(values, kind) {
    const made = Column.from(values);
    made.kind = kind;
    return made;
}

/** A column of integers. Without it, numbers are written as floats. */
export const int64 = (values) => column(values, "int64");

/** Columns of one length. `run` of a table job receives one, and may return one. */
export class Table {
    /** `columns`: an object of names to arrays. `names`: their order, because an object puts names that are
     * integers first. */
    constructor(columns, names = Object.keys(columns)) {
        this.columns = columns;
        this.names = names;
        const counts = names.map((name) => {
            const values = columns[name];
            if (!Array.isArray(values) && !ArrayBuffer.isView(values)) throw new TypeError(`column ${name} is not an array`);
            return values.length;
        });
        this.length = counts[0] ?? 0;
        const other = counts.findIndex((count) => count !== this.length);
        if (other >= 0) {
            const name = this.names[other];
            throw new RangeError(`column ${name} has ${counts[other]} values, and the first column has ${this.length}`);
        }
    }

    /** The values of a column. */
    get(name) {
        const values = this.columns[name];
        if (!values) throw new RangeError(`there is no column ${name}; there is: ${this.names.join(", ")}`);
        return values;
    }

    /** Rows, each an object. */
    *[Symbol.iterator]() {
        const names = this.names;
        for (let row = 0; row < this.length; row++) {
            yield Object.fromEntries(names.map((name) => [name, this.columns[name][row]]));
        }
    }

    select(...names) {
        return new Table(Object.fromEntries(names.map((name) => [name, this.get(name)])), names);
    }

    /** A new table with these columns added. A column replaces one of the same name. */
    with(columns) {
        return new Table({ ...this.columns, ...columns }, [...new Set([...this.names, ...Object.keys(columns)])]);
    }
}

const INTEGERS = { 8: Int8Array, 16: Int16Array, 32: Int32Array, 64: BigInt64Array };
const NATURALS = { 8: Uint8Array, 16: Uint16Array, 32: Uint32Array, 64: BigUint64Array };
const PER_SECOND = [1n, 1_000n, 1_000_000n, 1_000_000_000n];
const DAY = 86_400_000;
const NAMES = { 7: "a decimal", 11: "an interval", 12: "a list", 13: "a structure", 14: "a union", 16: "a list", 17: "a map" };

/** Reads a table from an Arrow IPC stream. Throws a TypeError that names the column if its type cannot be
 * read. */
export function read(stream) {
    let fields = [];
    const parts = [];
    for (const { kind, header, body } of messages(stream)) {
        if (kind === 1) {
            fields = header.tables(1).map((field) => new Field(field));
            for (const _ of fields) parts.push([]);
        } else if (kind === 2) {
            const id = header.long(0);
            const isMore = header.number(2, "Uint8") !== 0;
            for (const field of fields.filter((field) => field.dictionary === id)) {
                const [values] = batch([field.values], header.table(1), body);
                field.known = isMore ? field.known.concat(values) : values;
            }
        } else if (kind === 3) {
            batch(fields, header, body).forEach((values, at) => parts[at].push(values));
        }
    }
    const columns = Object.fromEntries(fields.map((field, at) => [field.name, column(parts[at].flat(), field.kind)]));
    return new Table(columns, [...new Set(fields.map((field) => field.name))]);
}

function* messages(stream) {
    const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength);
    for (let at = 0; at + 8 <= stream.length; ) {
        const count = view.getInt32(at + 4, true);
        if (count === 0) return;
        const message = Flat.root(stream.subarray(at + 8, at + 8 + count));
        at += 8 + count;
        const length = message.long(3);
        yield { kind: message.number(1, "Uint8"), header: message.table(2), body: stream.subarray(at, at + length) };
        at += length;
    }
}

/** Reads the values of each field of a record batch. */
function batch(fields, header, body) {
    const nodes = header.pairs(1);
    const buffers = header.pairs(2).map(([offset, length]) => body.subarray(offset, offset + length));
    let next = 0;
    return fields.map((field, at) => {
        const [count, nulls] = nodes[at];
        const parts = buffers.slice(next, (next += field.buffers));
        const values = field.read(parts, count);
        if (nulls > 0 && field.buffers > 0) {
            const bits = parts[0];
            for (let row = 0; row < count; row++) if (!((bits[row >> 3] >> (row & 7)) & 1)) values[row] = null;
        }
        return values;
    });
}

/** A column of a schema. `read` makes values from its buffers, the first of which has the nulls. */
class Field {
    constructor(field) {
        this.name = field.text(0) ?? "";
        const number = field.number(2, "Uint8");
        [this.buffers, this.kind, this.read] = reader(this.name, number, field.table(3));
        const encoding = field.table(4);
        this.dictionary = encoding ? encoding.long(0) : null;
        if (encoding) {
            this.values = { buffers: this.buffers, read: this.read };
            this.known = [];
            const index = encoding.table(1);
            const numbers = index ? integers(index.number(0, "Int32"), index.number(1, "Uint8") !== 0) : integers(32, true);
            this.buffers = 2;
            this.read = (parts, count) => numbers(parts, count).map((at) => this.known[Number(at)] ?? null);
        }
    }
}

function reader(name, number, type) {
    switch (number) {
        case 1:
            return [0, "text", (_, count) => new Array(count).fill(null)];
        case 2: {
            const [bits, isSigned] = [type.number(0, "Int32"), type.number(1, "Uint8") !== 0];
            return [2, bits === 64 && !isSigned ? "uint64" : "int64", integers(bits, isSigned)];
        }
        case 3: {
            const size = type.number(0, "Int16");
            if (size === 0) break;
            return [2, "float64", (parts, count) => Array.from(typed(size === 1 ? Float32Array : Float64Array, parts[1], count))];
        }
        case 4:
        case 19:
            return [3, "bytes", slices(number === 4, (bytes, start, end) => bytes.slice(start, end))];
        case 5:
        case 20:
            return [3, "text", slices(number === 5, decode)];
        case 6:
            return [2, "bool", (parts, count) => Array.from({ length: count }, (_, row) => ((parts[1][row >> 3] >> (row & 7)) & 1) === 1)];
        case 8: {
            const isDays = type.number(0, "Int16", 1) === 0;
            const numbers = integers(isDays ? 32 : 64, true);
            return [2, "date", (parts, count) => numbers(parts, count).map((value) => new Date(isDays ? value * DAY : Number(value)))];
        }
        case 10: {
            const perSecond = PER_SECOND[type.number(0, "Int16")];
            const moments = (parts, count) => Array.from(typed(BigInt64Array, parts[1], count), (value) => moment(value, perSecond));
            return [2, type.text(1) ? "moment" : "datetime", moments];
        }
    }
    const what = NAMES[number] ?? `of Arrow's type ${number}`;
    throw new TypeError(`column ${name} is ${what}, which this runtime does not read; leave it out with \`columns:\` of the input`);
}

/** A Date. Its property `microseconds` has the microseconds beyond the last millisecond. */
function moment(value, perSecond) {
    const all = perSecond > 1_000_000n ? floored(value, perSecond / 1_000_000n) : value * (1_000_000n / perSecond);
    const date = new Date(Number(floored(all, 1_000n)));
    const microseconds = Number(all - floored(all, 1_000n) * 1_000n);
    if (microseconds) date.microseconds = microseconds;
    return date;
}

function floored(value, by) {
    const whole = value / by;
    return value < 0n && whole * by !== value ? whole - 1n : whole;
}

/** A typed array over a buffer. Copies the buffer if it does not begin at a multiple of the numbers' size. */
function typed(Numbers, part, count) {
    const size = Numbers.BYTES_PER_ELEMENT;
    const bytes = part.byteOffset % size === 0 ? part : part.slice();
    return new Numbers(bytes.buffer, bytes.byteOffset, Math.min(count, Math.floor(bytes.length / size)));
}

/** A reader of integers. If one of them is beyond 2^53, all values of the column are BigInts. */
function integers(bits, isSigned) {
    const Numbers = (isSigned ? INTEGERS : NATURALS)[bits];
    if (bits < 64) return (parts, count) => Array.from(typed(Numbers, parts[1], count));
    return (parts, count) => {
        const values = Array.from(typed(Numbers, parts[1], count));
        const most = BigInt(Number.MAX_SAFE_INTEGER);
        const areSafe = values.every((value) => value <= most && value >= -most);
        return areSafe ? values.map(Number) : values;
    };
}

function slices(isShort, make) {
    return (parts, count) => {
        const offsets = count > 0 ? typed(isShort ? Int32Array : BigInt64Array, parts[1], count + 1) : [];
        const bytes = parts[2];
        return Array.from({ length: count }, (_, row) => make(bytes, Number(offsets[row]), Number(offsets[row + 1])));
    };
}

/** Writes a table as an Arrow IPC stream with one record batch. Throws a TypeError that names the column if a
 * value cannot be written. */
export function write({ columns, names }) {
    if (names.length === 0) throw new TypeError("the table has no columns; a result has one at least");
    const rows = columns[names[0]].length;
    const [fields, nodes, buffers, body] = [[], [], [], []];
    let length = 0;
    for (const name of names) {
        const values = whole(columns[name]);
        if (values.length !== rows) {
            throw new RangeError(`column ${name} has ${values.length} values, and the first column has ${rows}`);
        }
        const { number, type, parts } = written(name, values);
        const nulls = values.reduce((count, value) => count + (value === null || value === undefined ? 1 : 0), 0);
        fields.push(table({ 0: text(name), 1: ["Uint8", 1], 2: ["Uint8", number], 3: table(type), 5: tables([]) }));
        nodes.push([rows, nulls]);
        const valid = nulls > 0 ? bits(values, (value) => value !== null && value !== undefined) : new Uint8Array();
        for (const part of [valid, ...parts]) {
            const bytes = new Uint8Array(part.buffer, part.byteOffset, part.byteLength);
            buffers.push([length, bytes.length]);
            body.push(bytes);
            const padding = -bytes.length & 7;
            if (padding) body.push(new Uint8Array(padding));
            length += bytes.length + padding;
        }
    }
    const schema = table({ 0: ["Int16", 0], 1: tables(fields) });
    const records = table({ 0: ["BigInt64", BigInt(rows)], 1: pairs(nodes), 2: pairs(buffers) });
    return joined([...message(1, schema, 0), ...message(3, records, length), ...body, END]);
}

/** The array with undefined for its holes, which is written as null. */
function whole(values) {
    return ArrayBuffer.isView(values) ? values : column(Array.from(values), values.kind);
}

const END = new Uint8Array([255, 255, 255, 255, 0, 0, 0, 0]);

function message(kind, header, length) {
    // Arrow calls version 4 V5.
    const root = table({ 0: ["Int16", 4], 1: ["Uint8", kind], 2: header, 3: ["BigInt64", BigInt(length)] });
    const metadata = flatbuffer(root);
    const prefix = new Uint8Array(8);
    const view = new DataView(prefix.buffer);
    view.setUint32(0, 0xffffffff, true);
    view.setInt32(4, metadata.length, true);
    return [prefix, metadata];
}

function joined(parts) {
    const all = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
        all.set(part, at);
        at += part.length;
    }
    return all;
}

function bits(values, isSet) {
    const packed = new Uint8Array((values.length + 7) >> 3);
    values.forEach((value, row) => {
        if (isSet(value)) packed[row >> 3] |= 1 << (row & 7);
    });
    return packed;
}

/** The kind as which the values are written: that of the column if it fits the values, else one that fits
 * them. */
function kindOf(name, values) {
    const found = new Set();
    for (const value of values) {
        if (value === null || value === undefined) continue;
        found.add(value instanceof Date ? "moment" : value instanceof Uint8Array ? "bytes" : typeof value);
    }
    const only = found.size === 1 ? [...found][0] : null;
    const fits = { number: ["int64", "uint64", "float64"], bigint: ["int64", "uint64"], moment: ["moment", "datetime", "date"] };
    if (values.kind && (found.size === 0 || fits[only]?.includes(values.kind))) return values.kind;
    const kinds = { number: "float64", bigint: "int64", string: "text", boolean: "bool", moment: "moment", bytes: "bytes" };
    if (found.size === 0) return "text";
    if (only === "bigint" && values.some((value) => value >= 1n << 63n)) return "uint64";
    if (only && kinds[only]) return kinds[only];
    throw new TypeError(`column ${name} has values of type ${[...found].sort().join(", ")}; one of number, bigint, string, boolean, Date and Uint8Array can be written`);
}

const ZONE = () => text("+00:00");

function written(name, values) {
    if (values instanceof Float32Array || values instanceof Float64Array) {
        return { number: 3, type: { 0: ["Int16", values instanceof Float32Array ? 1 : 2] }, parts: [values] };
    }
    if (ArrayBuffer.isView(values)) return written(name, int64(values));
    const kind = kindOf(name, values);
    const numbers = (Numbers, make) => Numbers.from(values, (value) => (value === null || value === undefined ? make(0) : make(value)));
    const integer = (value) => {
        if (typeof value === "bigint") return fitting(value);
        if (!Number.isInteger(value)) throw new TypeError(`column ${name} is of whole numbers, and has ${value}; write Array.from(...) to make it one of floats`);
        return fitting(BigInt(value));
    };
    const fitting = (value) => {
        const fits = kind === "uint64" ? BigInt.asUintN(64, value) : BigInt.asIntN(64, value);
        if (fits !== value) throw new RangeError(`column ${name} has ${value}, which does not fit in 64 bits`);
        return value;
    };
    const time = (value) => {
        const milliseconds = Number(value);
        if (Number.isNaN(milliseconds)) throw new RangeError(`column ${name} has an invalid Date`);
        return milliseconds;
    };
    switch (kind) {
        case "int64":
        case "uint64": {
            const isSigned = kind === "int64";
            return {
                number: 2,
                type: { 0: ["Int32", 64], 1: ["Uint8", isSigned ? 1 : 0] },
                parts: [numbers(isSigned ? BigInt64Array : BigUint64Array, integer)],
            };
        }
        case "float64":
            return { number: 3, type: { 0: ["Int16", 2] }, parts: [numbers(Float64Array, Number)] };
        case "bool":
            return { number: 6, type: {}, parts: [bits(values, (value) => value === true)] };
        case "date":
            return { number: 8, type: { 0: ["Int16", 0] }, parts: [numbers(Int32Array, (value) => Math.floor(time(value) / DAY))] };
        case "moment":
        case "datetime": {
            const type = { 0: ["Int16", 2] };
            if (kind === "moment") type[1] = ZONE();
            return { number: 10, type, parts: [numbers(BigInt64Array, (value) => BigInt(time(value)) * 1_000n + BigInt(value.microseconds ?? 0))] };
        }
        default: {
            const data = values.map((value) => (value === null || value === undefined ? new Uint8Array() : kind === "text" ? encode(String(value)) : value));
            const offsets = new Int32Array(values.length + 1);
            data.forEach((bytes, row) => (offsets[row + 1] = offsets[row] + bytes.length));
            return { number: kind === "text" ? 5 : 4, type: {}, parts: [offsets, joined(data)] };
        }
    }
}
