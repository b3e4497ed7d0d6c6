// The runtime of JavaScript and TypeScript scripts. It is compiled to a component once. `init` loads the script
// from the source folder, so users need not build anything after they change the script.

import { seed } from "./globals.js";
import { getArguments, getEnvironment } from "wasi:cli/environment@0.2.12";
import { read as readTable } from "./table.js";
import { described } from "./errors.js";
import { load } from "./modules.js";
import { resultsOf } from "./results.js";
import { scan } from "./scan.js";
import { settings } from "./sandmill.js";

let script;
/** The result of the scan, if the host asked for a scan instead of a run. */
let scanned;

/** The function of the script with this name, or undefined. */
function functionOf(name) {
    const found = script[name] ?? script.default?.[name];
    return typeof found === "function" ? found : undefined;
}

/** Calls a function of the script. Turns an error into a text, as wit/entry.wit requires. */
function guarded(call) {
    try {
        return call();
    } catch (error) {
        throw described(error);
    }
}

/** Throws if the result is a promise, because the runtime does not wait for promises. */
function refusePromise(name, result) {
    if (typeof result?.then === "function") throw new TypeError(`${name} returned a promise; write function ${name}, without async`);
}

export const entry = {
    init() {
        seed();
        const environment = Object.fromEntries(getEnvironment());
        // The host's settings for this runtime, which are hidden from the script.
        const hostSettings = JSON.parse(environment.SANDMILL_PYTHON ?? "{}");
        delete environment.SANDMILL_PYTHON;
        const [path = "", ...args] = getArguments();
        Object.assign(settings, { path, args, environment });
        if (hostSettings.scan) {
            scanned = scan(path);
            return;
        }
        guarded(() => {
            script = load(path);
            if (!functionOf("run")) throw new TypeError(`\`run\` of ${path} is missing; write: export function run(miniBatch) { ... }`);
            refusePromise("init", functionOf("init")?.());
        });
    },

    run(miniBatch, context) {
        if (scanned) return { tag: "rows", val: [JSON.stringify(scanned)] };
        return guarded(() => {
            const { tag, val } = miniBatch;
            const batch = tag === "table" ? readTable(val) : tag === "files" ? val : null;
            const scriptContext = {
                id: Number(context.id),
                dataset: context.dataset,
                attempt: context.attempt,
                partitionKeyValue: Object.fromEntries(context.partitionKeyValue),
            };
            return resultsOf(functionOf("run")(batch, scriptContext));
        });
    },

    shutdown() {
        if (!scanned) guarded(() => refusePromise("shutdown", functionOf("shutdown")?.()));
    },
};
