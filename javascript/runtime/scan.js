// What a script imports, and whether it can be parsed, found without running it.

import { compiled, found, shortened, textOf } from "./modules.js";

const NODE = new Set(
    "assert buffer child_process cluster crypto dns events fs http https net os path process readline stream timers tls url util v8 vm worker_threads zlib".split(" "),
);

// What stands before the `require` that an `import` becomes, or that is a statement of its own: others a script may do without.
const IMPORT = /(^|[;}])\s*((var|let|const)\s+[\w$\s{},:]+=\s*)?$/;

/** See Python's `_scan.py`: `error`, `run` and `missing` of the script at `path` and of the modules that it imports. */
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
            // Parsed, and not run.
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
