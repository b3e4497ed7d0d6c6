// A Sandmill entry script: counts the words of each text file.

import { agentName, log, readText } from "sandmill";

// Called once per worker. args() returns the arguments of the job file.
export function init(): void {
    log.info(`${agentName()} begins`);
}

// Called once per mini-batch, with the paths of its files. Each element becomes a row.
export function run(miniBatch: string[]): string[] {
    return miniBatch.map((path) => `${path.split("/").pop()}: ${words(path)}`);
}

function words(path: string): number {
    return readText(path).split(/\s+/).filter(Boolean).length;
}
