"""A Sandmill entry script: a table of people with their body mass index."""


# Called once per mini-batch, with a sandmill.Table. The table that it returns becomes rows.
def run(people):
    pairs = zip(people["weight"], people["height"])
    return people.with_columns(bmi=[weight / height**2 for weight, height in pairs])
