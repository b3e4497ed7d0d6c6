// A Sandmill entry script: runs a model on the numbers in each text file.

import { models, readText } from "sandmill";

let model: models.Model;

// Called once per worker. The job file names the model's file.
export function init(): void {
    model = models.load("model");
}

// Called once per mini-batch. Calls the model once for all files.
export function run(miniBatch: string[]): string[] {
    const outputs = model.run(miniBatch.map(numbers));
    const rows = outputs[model.outputs[0].name].toArray();
    return miniBatch.map((path, index) => `${path.split("/").pop()}: ${JSON.stringify(rows[index])}`);
}

function numbers(path: string): number[] {
    return readText(path).split(/\s+/).filter(Boolean).map(Number);
}
