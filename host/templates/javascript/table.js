// A Sandmill entry script: adds the body mass index to a table of people.

// Called once per mini-batch, with a Table. The table that it returns becomes rows.
export function run(people) {
    const height = people.get("height");
    return people.with({ bmi: people.get("weight").map((weight, row) => weight / height[row] ** 2) });
}
