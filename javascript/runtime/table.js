// Tables: reads Arrow IPC streams into columns of JavaScript values, and writes columns as streams. Buffers are
// never compressed (see wit/entry.wit).

import { Flat, flatbuffer, pairs, table, tables, text } from "./flat.js";
import { decode, encode } from "./utf8.js";

// Arrow's codes, from Schema.fbs and Message.fbs. The field numbers below are from these files, too.
const TYPE = { null: 1, int: 2, float: 3, binary: 4, utf8: 5, bool: 6, date: 8, timestamp: 10, largeBinary: 19, largeUtf8: 20 };
const HEADER = { schema: 1, dictionaryBatch: 2, recordBatch: 3 };
const PRECISION = { half: 0, single: 1, double: 2 };
const DATE_UNIT = { day: 0, millisecond: 1 };
const MICROSECOND = 2;
const METADATA_VERSION_V5 = 4;

/** The values of a column: an array, with null for nulls. `kind`: the type to write if the values fit it, such as
 * "int64". A timestamp with a time zone is an "instant", and one without is a "localTime". */
export class Column extends Array {
    // `map` and other methods return a plain array, which has no `kind`.
    static get [Symbol.species]() {
        return Array;
    }
}

function column(values, kind) {
    const result = Column.from(values);
    result.kind = kind;
    return result;
}

/** Makes a column of integers. Numbers in other arrays are written as floats. */
export const int64 = (values) => column(values, "int64");

/** Columns of equal length. `run` of a table job receives one, and may return one. */
export class Table {
    /** `columns`: an object from names to arrays. `names`: the order of the columns, because an object puts
     * names that are integers first. */
    constructor(columns, names = Object.keys(columns)) {
        this.columns = columns;
        this.names = names;
        const counts = names.map((name) => {
            const values = columns[name];
            if (!Array.isArray(values) && !ArrayBuffer.isView(values)) throw new TypeError(`column ${name} is not an array`);
            return values.length;
        });
        this.length = counts[0] ?? 0;
        const wrong = counts.findIndex((count) => count !== this.length);
        if (wrong >= 0) {
            const name = this.names[wrong];
            throw new RangeError(`column ${name} has ${counts[wrong]} values, and the first column has ${this.length}`);
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

const SIGNED_ARRAYS = { 8: Int8Array, 16: Int16Array, 32: Int32Array, 64: BigInt64Array };
const UNSIGNED_ARRAYS = { 8: Uint8Array, 16: Uint16Array, 32: Uint32Array, 64: BigUint64Array };
// By Arrow's code of the unit.
const UNITS_PER_SECOND = [1n, 1_000n, 1_000_000n, 1_000_000_000n];
const MILLISECONDS_PER_DAY = 86_400_000;
const UNSUPPORTED_TYPES = { 7: "a decimal", 11: "an interval", 12: "a list", 13: "a structure", 14: "a union", 16: "a list", 17: "a map" };

/** Reads a table from an Arrow IPC stream. Throws a TypeError that names the column if its type cannot be
 * read. */
export function read(stream) {
    let fields = [];
    const batches = [];
    for (const { kind, header, body } of messages(stream)) {
        if (kind === HEADER.schema) {
            fields = header.tables(1).map((field) => new Field(field));
            for (const _ of fields) batches.push([]);
        } else if (kind === HEADER.dictionaryBatch) {
            const id = header.long(0);
            const isDelta = header.number(2, "Uint8") !== 0;
            for (const field of fields.filter((field) => field.dictionaryId === id)) {
                const [values] = batch([field.valueReader], header.table(1), body);
                field.dictionaryValues = isDelta ? field.dictionaryValues.concat(values) : values;
            }
        } else if (kind === HEADER.recordBatch) {
            batch(fields, header, body).forEach((values, index) => batches[index].push(values));
        }
    }
    const columns = Object.fromEntries(fields.map((field, index) => [field.name, column(batches[index].flat(), field.kind)]));
    return new Table(columns, [...new Set(fields.map((field) => field.name))]);
}

function* messages(stream) {
    const view = new DataView(stream.buffer, stream.byteOffset, stream.byteLength);
    for (let at = 0; at + 8 <= stream.length; ) {
        const metadataLength = view.getInt32(at + 4, true);
        if (metadataLength === 0) return;
        const message = Flat.root(stream.subarray(at + 8, at + 8 + metadataLength));
        at += 8 + metadataLength;
        const bodyLength = message.long(3);
        yield { kind: message.number(1, "Uint8"), header: message.table(2), body: stream.subarray(at, at + bodyLength) };
        at += bodyLength;
    }
}

/** Reads the values of each field of a record batch. */
function batch(fields, header, body) {
    const nodes = header.pairs(1);
    const buffers = header.pairs(2).map(([offset, length]) => body.subarray(offset, offset + length));
    let next = 0;
    return fields.map((field, index) => {
        const [count, nulls] = nodes[index];
        const own = buffers.slice(next, (next += field.bufferCount));
        const values = field.read(own, count);
        if (nulls > 0 && field.bufferCount > 0) {
            const bits = own[0];
            for (let row = 0; row < count; row++) if (!((bits[row >> 3] >> (row & 7)) & 1)) values[row] = null;
        }
        return values;
    });
}

/** A column of a schema. `read` makes values from the column's buffers. The first buffer has the validity bits. */
class Field {
    constructor(field) {
        this.name = field.text(0) ?? "";
        const typeCode = field.number(2, "Uint8");
        [this.bufferCount, this.kind, this.read] = reader(this.name, typeCode, field.table(3));
        const encoding = field.table(4);
        this.dictionaryId = encoding ? encoding.long(0) : null;
        if (encoding) {
            this.valueReader = { bufferCount: this.bufferCount, read: this.read };
            this.dictionaryValues = [];
            const indexType = encoding.table(1);
            const readIndices = indexType ? integers(indexType.number(0, "Int32"), indexType.number(1, "Uint8") !== 0) : integers(32, true);
            this.bufferCount = 2;
            this.read = (buffers, count) => readIndices(buffers, count).map((index) => this.dictionaryValues[Number(index)] ?? null);
        }
    }
}

/** Returns the number of buffers, the kind, and a function that reads the values of a column. `code`: Arrow's code of
 * the type. */
function reader(name, code, type) {
    switch (code) {
        case TYPE.null:
            return [0, "text", (_, count) => new Array(count).fill(null)];
        case TYPE.int: {
            const [bits, isSigned] = [type.number(0, "Int32"), type.number(1, "Uint8") !== 0];
            return [2, bits === 64 && !isSigned ? "uint64" : "int64", integers(bits, isSigned)];
        }
        case TYPE.float: {
            const precision = type.number(0, "Int16");
            if (precision === PRECISION.half) break;
            return [2, "float64", (buffers, count) => Array.from(typed(precision === PRECISION.single ? Float32Array : Float64Array, buffers[1], count))];
        }
        case TYPE.binary:
        case TYPE.largeBinary:
            return [3, "bytes", slices(code === TYPE.binary, (bytes, start, end) => bytes.slice(start, end))];
        case TYPE.utf8:
        case TYPE.largeUtf8:
            return [3, "text", slices(code === TYPE.utf8, decode)];
        case TYPE.bool:
            return [2, "bool", (buffers, count) => Array.from({ length: count }, (_, row) => ((buffers[1][row >> 3] >> (row & 7)) & 1) === 1)];
        case TYPE.date: {
            const isDays = type.number(0, "Int16", DATE_UNIT.millisecond) === DATE_UNIT.day;
            const numbers = integers(isDays ? 32 : 64, true);
            return [2, "date", (buffers, count) => numbers(buffers, count).map((value) => new Date(isDays ? value * MILLISECONDS_PER_DAY : Number(value)))];
        }
        case TYPE.timestamp: {
            const perSecond = UNITS_PER_SECOND[type.number(0, "Int16")];
            const instants = (buffers, count) => Array.from(typed(BigInt64Array, buffers[1], count), (value) => dateOf(value, perSecond));
            return [2, type.text(1) ? "instant" : "localTime", instants];
        }
    }
    const what = UNSUPPORTED_TYPES[code] ?? `of Arrow's type ${code}`;
    throw new TypeError(`column ${name} is ${what}, which this runtime does not read; leave it out with \`columns:\` of the input`);
}

/** A Date. Its property `microseconds` has the microseconds beyond the last millisecond. */
function dateOf(value, perSecond) {
    const microseconds = perSecond > 1_000_000n ? floored(value, perSecond / 1_000_000n) : value * (1_000_000n / perSecond);
    const date = new Date(Number(floored(microseconds, 1_000n)));
    const beyond = Number(microseconds - floored(microseconds, 1_000n) * 1_000n);
    if (beyond) date.microseconds = beyond;
    return date;
}

function floored(value, by) {
    const whole = value / by;
    return value < 0n && whole * by !== value ? whole - 1n : whole;
}

/** A typed array over a buffer. Copies the buffer if its position is not a multiple of the size of a number. */
function typed(Numbers, buffer, count) {
    const size = Numbers.BYTES_PER_ELEMENT;
    const bytes = buffer.byteOffset % size === 0 ? buffer : buffer.slice();
    return new Numbers(bytes.buffer, bytes.byteOffset, Math.min(count, Math.floor(bytes.length / size)));
}

/** Returns a function that reads integers. If an integer is beyond 2^53, all values of the column are BigInts. */
function integers(bits, isSigned) {
    const Numbers = (isSigned ? SIGNED_ARRAYS : UNSIGNED_ARRAYS)[bits];
    if (bits < 64) return (buffers, count) => Array.from(typed(Numbers, buffers[1], count));
    return (buffers, count) => {
        const values = Array.from(typed(Numbers, buffers[1], count));
        const largest = BigInt(Number.MAX_SAFE_INTEGER);
        const areSafe = values.every((value) => value <= largest && value >= -largest);
        return areSafe ? values.map(Number) : values;
    };
}

/** Returns a function that reads texts or byte strings. `isShort`: whether the offsets have 32 bits and not 64. */
function slices(isShort, make) {
    return (buffers, count) => {
        const offsets = count > 0 ? typed(isShort ? Int32Array : BigInt64Array, buffers[1], count + 1) : [];
        const bytes = buffers[2];
        return Array.from({ length: count }, (_, row) => make(bytes, Number(offsets[row]), Number(offsets[row + 1])));
    };
}

/** Writes a table as an Arrow IPC stream with one record batch. Throws a TypeError that names the column if a
 * value cannot be written. */
export function write({ columns, names }) {
    if (names.length === 0) throw new TypeError("the table has no columns; a result needs at least one");
    const rows = columns[names[0]].length;
    const [fields, nodes, buffers, body] = [[], [], [], []];
    let length = 0;
    for (const name of names) {
        const values = withoutHoles(columns[name]);
        if (values.length !== rows) {
            throw new RangeError(`column ${name} has ${values.length} values, and the first column has ${rows}`);
        }
        const { code, type, buffers: valueBuffers } = encoded(name, values);
        const nulls = values.reduce((count, value) => count + (value === null || value === undefined ? 1 : 0), 0);
        fields.push(table({ 0: text(name), 1: ["Uint8", 1], 2: ["Uint8", code], 3: table(type), 5: tables([]) }));
        nodes.push([rows, nulls]);
        const validity = nulls > 0 ? bits(values, (value) => value !== null && value !== undefined) : new Uint8Array();
        for (const array of [validity, ...valueBuffers]) {
            const bytes = new Uint8Array(array.buffer, array.byteOffset, array.byteLength);
            buffers.push([length, bytes.length]);
            body.push(bytes);
            const padding = -bytes.length & 7;
            if (padding) body.push(new Uint8Array(padding));
            length += bytes.length + padding;
        }
    }
    const schema = table({ 0: ["Int16", 0], 1: tables(fields) });
    const records = table({ 0: ["BigInt64", BigInt(rows)], 1: pairs(nodes), 2: pairs(buffers) });
    return joined([...message(HEADER.schema, schema, 0), ...message(HEADER.recordBatch, records, length), ...body, END_OF_STREAM]);
}

/** The array with undefined, which is written as null, instead of holes. */
function withoutHoles(values) {
    return ArrayBuffer.isView(values) ? values : column(Array.from(values), values.kind);
}

const END_OF_STREAM = new Uint8Array([255, 255, 255, 255, 0, 0, 0, 0]);

/** The bytes of a message without its body, which has `bodyLength` bytes. `kind`: the code of the header. */
function message(kind, header, bodyLength) {
    const root = table({ 0: ["Int16", METADATA_VERSION_V5], 1: ["Uint8", kind], 2: header, 3: ["BigInt64", BigInt(bodyLength)] });
    const metadata = flatbuffer(root);
    const prefix = new Uint8Array(8);
    const view = new DataView(prefix.buffer);
    const continuation = 0xffffffff;
    view.setUint32(0, continuation, true);
    view.setInt32(4, metadata.length, true);
    return [prefix, metadata];
}

function joined(parts) {
    const result = new Uint8Array(parts.reduce((sum, part) => sum + part.length, 0));
    let at = 0;
    for (const part of parts) {
        result.set(part, at);
        at += part.length;
    }
    return result;
}

function bits(values, isSet) {
    const packed = new Uint8Array((values.length + 7) >> 3);
    values.forEach((value, row) => {
        if (isSet(value)) packed[row >> 3] |= 1 << (row & 7);
    });
    return packed;
}

/** The kind to write. Keeps the column's `kind` if the values fit it, and otherwise chooses a kind by the values. */
function kindOf(name, values) {
    const found = new Set();
    for (const value of values) {
        if (value === null || value === undefined) continue;
        found.add(value instanceof Date ? "Date" : value instanceof Uint8Array ? "Uint8Array" : typeof value);
    }
    const only = found.size === 1 ? [...found][0] : null;
    const kindsThatFit = { number: ["int64", "uint64", "float64"], bigint: ["int64", "uint64"], Date: ["instant", "localTime", "date"] };
    if (values.kind && (found.size === 0 || kindsThatFit[only]?.includes(values.kind))) return values.kind;
    const defaultKinds = { number: "float64", bigint: "int64", string: "text", boolean: "bool", Date: "instant", Uint8Array: "bytes" };
    if (found.size === 0) return "text";
    if (only === "bigint" && values.some((value) => value >= 1n << 63n)) return "uint64";
    if (only && defaultKinds[only]) return defaultKinds[only];
    throw new TypeError(`column ${name} has values of type ${[...found].sort().join(", ")}; a column can have values of one of these types: number, bigint, string, boolean, Date, Uint8Array`);
}

const UTC = () => text("+00:00");

/** The code and the fields of Arrow's type for the values, and their buffers without the validity bits. */
function encoded(name, values) {
    if (values instanceof Float32Array || values instanceof Float64Array) {
        return { code: TYPE.float, type: { 0: ["Int16", values instanceof Float32Array ? PRECISION.single : PRECISION.double] }, buffers: [values] };
    }
    if (ArrayBuffer.isView(values)) return encoded(name, int64(values));
    const kind = kindOf(name, values);
    const typedArray = (Numbers, make) => Numbers.from(values, (value) => (value === null || value === undefined ? make(0) : make(value)));
    const integer = (value) => {
        if (typeof value === "bigint") return fitting(value);
        if (!Number.isInteger(value)) throw new TypeError(`column ${name} has integers, but the value ${value} is not an integer; use Array.from(...) to write the column as floats`);
        return fitting(BigInt(value));
    };
    const fitting = (value) => {
        const fits = kind === "uint64" ? BigInt.asUintN(64, value) : BigInt.asIntN(64, value);
        if (fits !== value) throw new RangeError(`column ${name} has ${value}, which does not fit into 64 bits`);
        return value;
    };
    const millisecondsOf = (value) => {
        const milliseconds = Number(value);
        if (Number.isNaN(milliseconds)) throw new RangeError(`column ${name} has an invalid Date`);
        return milliseconds;
    };
    switch (kind) {
        case "int64":
        case "uint64": {
            const isSigned = kind === "int64";
            return {
                code: TYPE.int,
                type: { 0: ["Int32", 64], 1: ["Uint8", isSigned ? 1 : 0] },
                buffers: [typedArray(isSigned ? BigInt64Array : BigUint64Array, integer)],
            };
        }
        case "float64":
            return { code: TYPE.float, type: { 0: ["Int16", PRECISION.double] }, buffers: [typedArray(Float64Array, Number)] };
        case "bool":
            return { code: TYPE.bool, type: {}, buffers: [bits(values, (value) => value === true)] };
        case "date":
            return { code: TYPE.date, type: { 0: ["Int16", DATE_UNIT.day] }, buffers: [typedArray(Int32Array, (value) => Math.floor(millisecondsOf(value) / MILLISECONDS_PER_DAY))] };
        case "instant":
        case "localTime": {
            const type = { 0: ["Int16", MICROSECOND] };
            if (kind === "instant") type[1] = UTC();
            return { code: TYPE.timestamp, type, buffers: [typedArray(BigInt64Array, (value) => BigInt(millisecondsOf(value)) * 1_000n + BigInt(value.microseconds ?? 0))] };
        }
        default: {
            const data = values.map((value) => (value === null || value === undefined ? new Uint8Array() : kind === "text" ? encode(String(value)) : value));
            const offsets = new Int32Array(values.length + 1);
            data.forEach((bytes, row) => (offsets[row + 1] = offsets[row] + bytes.length));
            return { code: kind === "text" ? TYPE.utf8 : TYPE.binary, type: {}, buffers: [offsets, joined(data)] };
        }
    }
}
