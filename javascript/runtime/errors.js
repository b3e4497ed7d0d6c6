// What the host is told of an error.

import { settings } from "./sandmill.js";

/** A text: the reason on its first line, then the stack with the script's own lines. */
export function described(error) {
    if (!(error instanceof Error)) {
        try {
            return String(error).toWellFormed();
        } catch {
            return "the script threw an object that is no Error and no text";
        }
    }
    const own = (error.stack ?? "").split("\n").filter((line) => line.includes("<input>"));
    const stack = own.map((line) => line.replace("<input>", settings.path.replace(/^\/source\//, "")));
    const place = stack[0]?.match(/:(\d+)(?::\d+)?\)?$/)?.[1];
    const first = `${error.name}: ${error.message}`.replaceAll("\n", " ");
    return [place ? `${first} (line ${place})` : first, ...stack].join("\n").toWellFormed();
}
