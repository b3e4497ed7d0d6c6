// A Sandmill entry script: adds a model's predictions to a table of people.

import { models, type Table } from "sandmill";

// The columns that the model takes, in the model's order.
const FEATURES = ["height", "weight"];
let model: models.Model;

// Called once per worker. The job file names the model's file.
export function init(): void {
    model = models.load("model");
}

// Called once per mini-batch. Calls the model once for all rows.
export function run(people: Table): Table {
    const columns = FEATURES.map((name) => people.get(name) as number[]);
    const features = columns[0].map((_, row) => columns.map((column) => column[row]));
    const rows: (number | number[])[] = model.run(features)[model.outputs[0].name].toArray();
    // Take the first number of each row. If the output is the labels of a classifier, a row is a number.
    return people.with({ predicted: rows.map((row) => (Array.isArray(row) ? row[0] : row)) });
}
