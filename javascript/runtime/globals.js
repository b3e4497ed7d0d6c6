// Defines globals that scripts expect, but that QuickJS does not have.

import { getStderr } from "wasi:cli/stderr@0.2.12";
import { getStdout } from "wasi:cli/stdout@0.2.12";
import { getRandomBytes } from "wasi:random/random@0.2.12";
import { decode, encode } from "./utf8.js";

// The maximum that WASI accepts in one call.
const MAX_WRITE_BYTES = 4096;

function put(stream, text) {
    const bytes = encode(text);
    for (let at = 0; at < bytes.length; at += MAX_WRITE_BYTES) stream.blockingWriteAndFlush(bytes.subarray(at, at + MAX_WRITE_BYTES));
}

// Kept, because each call of getStdout or getStderr opens a handle, and the number of handles is limited.
let stdout;
let stderr;

/** Writes a text to standard output, without a line end. */
export const print = (text) => put((stdout ??= getStdout()), String(text));
/** Writes a text to standard error, without a line end. */
export const printError = (text) => put((stderr ??= getStderr()), String(text));

const writer = (print) => (...values) => print(values.map(shown).join(" ") + "\n");

function shown(value) {
    if (typeof value === "string") return value;
    if (value instanceof Error) return value.stack ? `${value}\n${value.stack}` : `${value}`;
    if (typeof value === "object" && value !== null) {
        try {
            return JSON.stringify(value, (_, inner) => (typeof inner === "bigint" ? `${inner}n` : inner)) ?? `${value}`;
        } catch {
            return `${value}`;
        }
    }
    return String(value);
}

const out = writer(print);
const err = writer(printError);
globalThis.console ??= { log: out, info: out, debug: out, warn: err, error: err, trace: err };

globalThis.TextDecoder ??= class TextDecoder {
    constructor(label = "utf-8") {
        if (!/^utf-?8$/i.test(label)) throw new RangeError(`this runtime decodes only utf-8, not ${label}`);
    }

    decode(bytes = new Uint8Array()) {
        return decode(ArrayBuffer.isView(bytes) ? new Uint8Array(bytes.buffer, bytes.byteOffset, bytes.byteLength) : new Uint8Array(bytes));
    }
};
globalThis.TextEncoder ??= class TextEncoder {
    encode(text = "") {
        return encode(text);
    }
};

// Replaces the engine's random numbers: the runtime is a snapshot, so they would be the same in each worker.
const state = new Uint32Array(4);

/** Seeds `Math.random` for this worker. */
export function seed() {
    state.set(new Uint32Array(getRandomBytes(16).slice().buffer));
}

/** The random number generator xoshiro128** (Blackman and Vigna). Returns 32 bits. */
function next() {
    const rotated = (value, by) => (value << by) | (value >>> (32 - by));
    const result = Math.imul(rotated(Math.imul(state[1], 5), 7), 9) >>> 0;
    const shifted = state[1] << 9;
    state[2] ^= state[0];
    state[3] ^= state[1];
    state[1] ^= state[2];
    state[0] ^= state[3];
    state[2] ^= shifted;
    state[3] = rotated(state[3], 11);
    return result;
}

// 53 bits, the precision of JavaScript's numbers.
Math.random = () => ((next() >>> 5) * 67_108_864 + (next() >>> 6)) / 9_007_199_254_740_992;
