// A Sandmill entry script: a table of people with their body mass index.

// Called once per mini-batch, with a Table. The table that it returns becomes rows.
export function run(people) {
    const height = people.get("height");
    return people.with({ bmi: people.get("weight").map((weight, row) => weight / height[row] ** 2) });
}
