// A Sandmill entry script: adds the body mass index to a table of people.

import type { Table } from "sandmill";

// Called once per mini-batch, with a Table. The table that it returns becomes rows.
export function run(people: Table): Table {
    const height = people.get("height") as number[];
    const weight = people.get("weight") as number[];
    return people.with({ bmi: weight.map((weight, row) => weight / height[row] ** 2) });
}
