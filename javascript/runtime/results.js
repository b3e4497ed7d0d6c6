// Converts the return value of `run` to the results that the host accepts.

import { Failed } from "./sandmill.js";
import { Table, write } from "./table.js";

/** The results of a mini-batch. Throws a TypeError if `run` returned something else. */
export function resultsOf(result) {
    if (result instanceof Table) return { tag: "table", val: write(result) };
    if (!Array.isArray(result)) {
        throw new TypeError(`run returned ${describedValue(result)}; it must return an array with one row for each item, or a Table`);
    }
    // Holes in the array become undefined, which `rowOf` refuses.
    result = Array.from(result);
    if (result.some((row) => row instanceof Failed)) {
        const val = result.map((row, at) =>
            row instanceof Failed ? { tag: "err", val: row.reason.toWellFormed() } : { tag: "ok", val: rowOf(row, at) },
        );
        return { tag: "outcomes", val };
    }
    return { tag: "rows", val: result.map(rowOf) };
}

/** A row as text. Objects and arrays become JSON. */
function rowOf(row, at) {
    if (typeof row === "string") {
        if (row.isWellFormed()) return row;
        throw new TypeError(`row ${at} that run returned is not valid Unicode: ${JSON.stringify(row.slice(0, 100))}`);
    }
    if (["undefined", "function", "symbol"].includes(typeof row)) {
        throw new TypeError(`row ${at} that run returned is of type ${typeof row}; a row is a text, a number, or an object, which becomes JSON`);
    }
    if (typeof row === "object" && row !== null) {
        if (typeof row.then === "function" || row instanceof Error || row instanceof Map || row instanceof Set) {
            throw new TypeError(`row ${at} that run returned is ${describedValue(row)}; a row is a text, a number, or an object, which becomes JSON`);
        }
        const text = JSON.stringify(row, (_, inner) => (typeof inner === "bigint" ? jsonInteger(inner) : inner));
        if (typeof text !== "string") throw new TypeError(`row ${at} that run returned cannot be written as JSON`);
        return text;
    }
    return String(row);
}

/** An integer for JSON: a number, or a text if the number would lose digits. */
function jsonInteger(value) {
    return Number.isSafeInteger(Number(value)) ? Number(value) : String(value);
}

function describedValue(value) {
    if (value === undefined) return "undefined (is there a return statement?)";
    if (value === null) return "null";
    if (typeof value.then === "function") return "a promise (remove async from the function run)";
    if (typeof value === "object") return `an object of type ${value.constructor?.name || "Object"}`;
    return `a ${typeof value}`;
}
