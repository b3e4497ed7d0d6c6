// Classifies three species of iris: returns a table with `id`, `species` and `probability` for each flower.

import { Table, args, readText } from "sandmill";

let model;

export function init() {
    const option = args().indexOf("--model");
    if (option < 0) throw new Error("--model FILE is missing");
    model = JSON.parse(readText(args()[option + 1]));
}

export function run(flowers) {
    const columns = model.features.map((name) => flowers.get(name));
    const predictions = flowers.get("id").map((_, row) => predict(columns.map((column) => column[row])));
    return new Table({
        id: flowers.get("id"),
        species: predictions.map(({ best }) => model.classes[best]),
        probability: predictions.map(({ probability }) => Math.round(probability * 1e6) / 1e6),
    });
}

/** The index of the most likely class of one flower, and the probability. */
function predict(features) {
    const scores = model.coefficients.map((weights, index) => weights.reduce((sum, weight, feature) => sum + weight * features[feature], model.intercepts[index]));
    const highest = Math.max(...scores);
    const sum = scores.reduce((sum, score) => sum + Math.exp(score - highest), 0);
    return { best: scores.indexOf(highest), probability: 1 / sum };
}
