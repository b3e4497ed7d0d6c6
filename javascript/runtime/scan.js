// Finds the imports and syntax errors of a script without running it.

import { compiled, found, shortened, textOf } from "./modules.js";

// Modules of Node, which do not exist here.
const NODE_MODULES = new Set(
    "assert buffer child_process cluster crypto dns events fs http https net os path process readline stream timers tls url util v8 vm worker_threads zlib".split(" "),
);

// Matches the text before a `require` that always runs: sucrase made it from an `import`, or it is a statement by
// itself. Any other `require` may be optional, for example in a `try`.
const BEFORE_PLAIN_REQUIRE = /(^|[;}])\s*((var|let|const)\s+[\w$\s{},:]+=\s*)?$/;

/** Scans the script at `path` and the modules that it imports. Returns `error`, `run` and `missing`, as in
 * Python's `_scan.py`. */
export function scan(path) {
    const result = { error: null, run: null, missing: [] };
    const files = [path];
    const visited = new Set();
    while (files.length > 0) {
        const file = files.pop();
        if (visited.has(file) || file === "sandmill" || file.endsWith(".json")) continue;
        visited.add(file);
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
        code.split("\n").forEach((line, index) => {
            if (/^\s*(\/\/|\*)/.test(line)) return;
            for (const { 1: name, index: column } of line.matchAll(/\brequire\(['"]([^'"]+)['"]\)/g)) {
                const inner = found(name, file);
                if (inner !== undefined) files.push(inner);
                else {
                    const standard = name.startsWith("node:") || NODE_MODULES.has(name);
                    const guarded = !BEFORE_PLAIN_REQUIRE.test(line.slice(0, column));
                    result.missing.push({ package: name, file: shortened(file), line: index + 1, guarded, standard });
                }
            }
        });
    }
    return result;
}
