// Finds what a script imports, and whether it can be parsed, without running it.

import { compiled, found, shortened, textOf } from "./modules.js";

const NODE = new Set(
    "assert buffer child_process cluster crypto dns events fs http https net os path process readline stream timers tls url util v8 vm worker_threads zlib".split(" "),
);

// Matches the text before the `require` of a plain import: one that sucrase made from an `import`, or a
// statement by itself. The script may be able to do without any other `require`.
const IMPORT = /(^|[;}])\s*((var|let|const)\s+[\w$\s{},:]+=\s*)?$/;

/** Scans the script at `path` and the modules that it imports. Returns `error`, `run` and `missing`, as in
 * Python's `_scan.py`. */
export function scan(path) {
    const result = { error: null, run: null, missing: [] };
    const waiting = [path];
    const known = new Set();
    while (waiting.length > 0) {
        const file = waiting.pop();
        if (known.has(file) || file === "sandmill" || file.endsWith(".json")) continue;
        known.add(file);
        let code;
        try {
            code = compiled(file, textOf(file) ?? "");
            // This parses the code, but does not run it.
            new Function("exports", "module", "require", "__filename", "__dirname", `"use strict";${code}`);
        } catch (error) {
            result.error ??= error.message.startsWith(shortened(file)) ? `${error.name}: ${error.message}` : `${shortened(file)}: ${error.name}: ${error.message}`;
            continue;
        }
        if (file === path && !/exports\.\s*(run|default)\b|module\.exports|_createStarExport/.test(code)) {
            result.run = "is missing; write: export function run(miniBatch) { ... }";
        }
        code.split("\n").forEach((line, at) => {
            if (/^\s*(\/\/|\*)/.test(line)) return;
            for (const { 1: name, index } of line.matchAll(/\brequire\(['"]([^'"]+)['"]\)/g)) {
                const inner = found(name, file);
                if (inner !== undefined) waiting.push(inner);
                else {
                    const standard = name.startsWith("node:") || NODE.has(name);
                    const guarded = !IMPORT.test(line.slice(0, index));
                    result.missing.push({ package: name, file: shortened(file), line: at + 1, guarded, standard });
                }
            }
        });
    }
    return result;
}
