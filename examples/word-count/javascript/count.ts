// Counts the lines, words and bytes of text files: returns a row `NAME: LINES WORDS BYTES` for each.

import { read } from "sandmill";

export function run(files: string[]): string[] {
    return files.map(count);
}

function count(path: string): string {
    const bytes = read(path);
    const text = new TextDecoder().decode(bytes);
    const lines = text === "" ? 0 : text.replace(/\n$/, "").split("\n").length;
    const words = text.split(/\s+/).filter((word) => word !== "").length;
    return `${path.split("/").pop()}: ${lines} ${words} ${bytes.length}`;
}
