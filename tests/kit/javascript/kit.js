// The conformance kit's script in JavaScript: see ../README.md.

import {
    Table, agentName, args, env, failed, log, logDir, loggingLevel, outputDir, print, printError, read, readText, writeFile,
} from "sandmill";

let inits = 0;
let runs = 0;

export function init() {
    inits += 1;
    if (args()[0] === "fail-init") throw args()[1];
}

export function run(batch, context) {
    runs += 1;
    const [command, ...parts] = (Array.isArray(batch) ? readText(batch[0]) : args()[0]).split("\u001f");
    return COMMANDS[command](batch, context, ...parts);
}

export function shutdown() {
    if (args()[0] === "shutdown") writeFile(`${outputDir()}/kit.txt`, "shutdown");
}

const unsupported = () => {
    throw "not in this language: there is no such function";
};

function contextOf(batch, { id, dataset, attempt, partitionKeyValue }) {
    if (!Number.isSafeInteger(id)) throw "not in this language: ids are numbers, which are exact up to 2^53";
    return [String(id), dataset, String(attempt), ...Object.entries(partitionKeyValue).map(([key, value]) => `${key}=${value}`)];
}

function lengthAndSum(batch, context, path) {
    const bytes = read(path);
    return [`${bytes.length} ${bytes.reduce((sum, byte) => sum + byte, 0)}`];
}

function table(batch) {
    if (!(batch instanceof Table)) throw new TypeError("no table");
    return batch;
}

function overflowStack() {
    return overflowStack() + 1;
}

function allocate() {
    const held = [];
    for (;;) held.push(new Uint8Array(1 << 20).fill(1));
}

function compareNames([one], [other]) {
    return one < other ? -1 : 1;
}

const returnDone = (act) => (batch, context, ...parts) => {
    act(...parts);
    return ["done"];
};

const COMMANDS = {
    kit: () => ["sandmill kit 1"],
    count: () => [`${inits} ${runs}`],
    arguments: () => args(),
    environment: () => Object.entries(env()).sort(compareNames).map(([name, value]) => `${name}=${value}`),
    host: () => [agentName(), logDir(), outputDir()],
    items: (batch) => batch,
    context: contextOf,
    read: lengthAndSum,
    open: unsupported,
    write: returnDone(writeFile),
    rows: (batch, context, ...rows) => rows,
    outcomes: (batch, context, ...parts) => parts.map((part) => (part[0] === "+" ? part.slice(1) : failed(part.slice(1)))),
    table,
    error: (batch, context, text) => {
        throw text;
    },
    trap: overflowStack,
    exit: unsupported,
    loop: () => {
        for (;;);
    },
    allocate,
    log: returnDone((level, text) => log[level](text)),
    print: returnDone(print),
    complain: returnDone(printError),
    random: () => [`${Math.random()}${Math.random()}`],
    "logging-level": () => [loggingLevel()],
    clock: () => [String(Math.floor(Date.now() / 1000))],
};
