// Turns an error into the text that the host receives.

import { settings } from "./sandmill.js";

/** Returns the reason on the first line, and then the lines of the stack that are in the script. */
export function described(error) {
    if (!(error instanceof Error)) {
        try {
            return String(error).toWellFormed();
        } catch {
            return "the script threw an object that is neither an Error nor a text";
        }
    }
    const own = (error.stack ?? "").split("\n").filter((frame) => frame.includes("<input>"));
    const stack = own.map((frame) => frame.replace("<input>", settings.path.replace(/^\/source\//, "")));
    const line = stack[0]?.match(/:(\d+)(?::\d+)?\)?$/)?.[1];
    const first = `${error.name}: ${error.message}`.replaceAll("\n", " ");
    return [line ? `${first} (line ${line})` : first, ...stack].join("\n").toWellFormed();
}
