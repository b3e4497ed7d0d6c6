// The module "sandmill" that scripts import.

import * as host from "sandmill:entry/host@0.2.0";
import { getDirectories } from "wasi:filesystem/preopens@0.2.12";
import { decode, encode } from "./utf8.js";

export { print, printError } from "./globals.js";
export { Table, int64 } from "./table.js";
export * as models from "./models.js";

/** The script's path, arguments and environment. The runtime sets them in `init`. */
export const settings = { path: "", args: [], environment: {} };

/** The job's arguments. */
export const args = () => [...settings.args];
/** The environment variables of the job file. */
export const env = () => ({ ...settings.environment });

export const agentName = host.agentName;
export const nodeId = host.nodeId;
export const logDir = host.logDir;
export const outputDir = host.outputDir;
export const sourceDir = host.sourceDir;

/** Writes lines to the entry script's log. */
export const log = Object.fromEntries(
    ["error", "warning", "info", "debug"].map((level) => [level, (...values) => host.log(level, values.join(" ").toWellFormed())]),
);

/** The most verbose level that the log keeps: "warning", "info" or "debug". */
export const loggingLevel = host.loggingLevel;

/** Reads a file as a Uint8Array. */
export function read(path) {
    try {
        return host.read(path);
    } catch (error) {
        throw new Error(error.payload ?? error.message ?? String(error));
    }
}

/** Reads a file as UTF-8 text. */
export const readText = (path) => decode(read(path));

// Kept, because each call of getDirectories opens handles, and the number of handles is limited.
let directories;

/** Writes a file below `outputDir()`, `logDir()` or `/tmp`. `data`: a text or a Uint8Array. */
export function writeFile(path, data) {
    if (typeof data !== "string" && !(data instanceof Uint8Array)) throw new TypeError(`${path}: the data is neither a text nor a Uint8Array`);
    const bytes = typeof data === "string" ? encode(data) : data;
    directories ??= getDirectories();
    const entry = directories.find(([, name]) => path.startsWith(`${name}/`));
    if (!entry) throw new Error(`${path} is not in a folder that this script can access`);
    const [folder, name] = entry;
    try {
        const flags = { create: true, truncate: true };
        const file = folder.openAt({}, path.slice(name.length + 1), flags, { write: true });
        for (let at = 0; at < bytes.length; ) at += Number(file.write(bytes.subarray(at), at));
        file[Symbol.dispose]?.();
    } catch (error) {
        throw new Error(`${path} cannot be written: ${error.payload ?? error.message ?? error}`);
    }
}

/** An element of the array that `run` returns. It means that the item at this position failed for `reason`. */
export class Failed {
    constructor(reason) {
        this.reason = String(reason);
    }
}

/** Makes a Failed. */
export const failed = (reason) => new Failed(reason);
