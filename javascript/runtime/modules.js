// Loads the script and the modules that it imports: ES modules, TypeScript and CommonJS.

import { read as readBytes } from "sandmill:entry/host@0.2.0";
import { transform } from "sucrase";
import { decode } from "./utf8.js";
import * as sandmill from "./sandmill.js";

// Appended to the name in an import, in this order.
const SUFFIXES = ["", ".js", ".mjs", ".cjs", ".ts", ".mts", ".json", "/index.js", "/index.ts"];
const modules = new Map([["sandmill", { exports: sandmill }]]);

/** The text of a file, or undefined. */
export function textOf(path) {
    try {
        return decode(readBytes(path));
    } catch {
        return undefined;
    }
}

/** The path of a module that `from` imports, or undefined. */
export function found(name, from) {
    if (name === "sandmill") return name;
    const folder = from.slice(0, from.lastIndexOf("/"));
    if (name.startsWith(".")) return firstFile(normalized(`${folder}/${name}`));
    if (name.startsWith("/")) return firstFile(name);
    for (let parent = folder; parent; parent = parent.slice(0, parent.lastIndexOf("/"))) {
        const packageFolder = `${parent}/node_modules/${name}`;
        const description = textOf(`${packageFolder}/package.json`);
        const main = description && (JSON.parse(description).main ?? "index.js");
        const path = main ? firstFile(normalized(`${packageFolder}/${main}`)) : firstFile(packageFolder);
        if (path) return path;
    }
    return undefined;
}

/** Appends each suffix to the path. Returns the first result that is a file, or undefined. */
function firstFile(path) {
    const paths = SUFFIXES.map((suffix) => path + suffix);
    // An import in TypeScript may name the .js file that the .ts file would be compiled to.
    if (/\.m?js$/.test(path)) paths.push(path.replace(/js$/, "ts"));
    return paths.find((path) => textOf(path) !== undefined);
}

function normalized(path) {
    const parts = [];
    for (const part of path.split("/")) {
        if (part === "..") parts.pop();
        else if (part !== "." && part !== "") parts.push(part);
    }
    return `/${parts.join("/")}`;
}

/** Compiles a file to code that can be the body of a function. Throws a SyntaxError that names the file and the line. */
export function compiled(path, text) {
    const isTypeScript = /\.m?ts$/.test(path);
    try {
        // `transform` keeps the line numbers.
        return transform(text, { transforms: isTypeScript ? ["imports", "typescript"] : ["imports"], filePath: path }).code;
    } catch (error) {
        const { line, column } = error.loc ?? {};
        const reason = error.message.replace(/^Error transforming [^:]*: /, "").replace(/ \(\d+:\d+\)$/, "");
        throw new SyntaxError(`${shortened(path)}, line ${line ?? "?"}, column ${column ?? "?"}: ${reason}`);
    }
}

/** The path for messages: relative to the source folder. */
export function shortened(path) {
    return path.replace(/^\/source\//, "");
}

/** Loads the module at a path. Returns its exports. */
export function load(path) {
    const known = modules.get(path);
    if (known) return known.exports;
    const text = textOf(path);
    if (text === undefined) throw new Error(`${path} cannot be read`);
    const module = { exports: {} };
    modules.set(path, module);
    if (path.endsWith(".json")) {
        module.exports = JSON.parse(text);
        return module.exports;
    }
    const code = compiled(path, text);
    const require = (name) => {
        const inner = found(name, path);
        if (inner === undefined) {
            throw new Error(
                `${shortened(path)} imports ${name}, which does not exist; bundle it into one file, ` +
                    "for example with esbuild --bundle --format=esm --external:sandmill",
            );
        }
        return load(inner);
    };
    let run;
    try {
        run = (0, eval)(`(function (exports, module, require, __filename, __dirname) {"use strict";${code}\n})`);
    } catch (error) {
        throw new SyntaxError(`${shortened(path)}: ${error.message}`);
    }
    try {
        run.call(undefined, module.exports, module, require, path, path.slice(0, path.lastIndexOf("/")));
    } catch (error) {
        modules.delete(path);
        throw error;
    }
    return module.exports;
}
