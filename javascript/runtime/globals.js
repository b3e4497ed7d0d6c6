// What scripts expect of a JavaScript engine and QuickJS does not have.

import { getStderr } from "wasi:cli/stderr@0.2.12";
import { getStdout } from "wasi:cli/stdout@0.2.12";
import { decode, encode } from "./utf8.js";

// The most that WASI takes in one call.
const MOST = 4096;

function writer(stream) {
    return (...values) => {
        const bytes = encode(values.map(shown).join(" ") + "\n");
        const out = stream();
        for (let at = 0; at < bytes.length; at += MOST) out.blockingWriteAndFlush(bytes.subarray(at, at + MOST));
    };
}

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

const out = writer(getStdout);
const err = writer(getStderr);
globalThis.console ??= { log: out, info: out, debug: out, warn: err, error: err, trace: err };

globalThis.TextDecoder ??= class TextDecoder {
    decode(bytes = new Uint8Array()) {
        return decode(bytes instanceof Uint8Array ? bytes : new Uint8Array(bytes.buffer ?? bytes));
    }
};
globalThis.TextEncoder ??= class TextEncoder {
    encode(text = "") {
        return encode(text);
    }
};
