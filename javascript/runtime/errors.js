// Turns an error into the text that the host receives.

import { settings } from "./sandmill.js";

/** Returns a text: the reason on the first line, then the stack, of which only the script's own lines are
 * kept. */
export function described(error) {
    if (!(error instanceof Error)) {
        try {
            return String(error).toWellFormed();
        } catch {
            return "the script threw an object that is neither an Error nor a text";
        }
    }
    const own = (error.stack ?? "").split("\n").filter((line) => line.includes("<input>"));
    const stack = own.map((line) => line.replace("<input>", settings.path.replace(/^\/source\//, "")));
    const place = stack[0]?.match(/:(\d+)(?::\d+)?\)?$/)?.[1];
    const first = `${error.name}: ${error.message}`.replaceAll("\n", " ");
    return [place ? `${first} (line ${place})` : first, ...stack].join("\n").toWellFormed();
}
