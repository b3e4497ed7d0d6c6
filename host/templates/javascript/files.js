// A Sandmill entry script: counts the words of each text file.

import { agentName, log, readText } from "sandmill";

// Called once per worker. args() returns the arguments of the job file.
export function init() {
    log.info(`${agentName()} begins`);
}

// Called once per mini-batch, with the paths of its files. Each element becomes a row.
export function run(miniBatch) {
    return miniBatch.map((path) => `${path.split("/").pop()}: ${words(path)}`);
}

function words(path) {
    return readText(path).split(/\s+/).filter(Boolean).length;
}
