"""A Sandmill entry script: adds the body mass index to a table of people."""


# Called once per mini-batch, with a sandmill.Table. The table that it returns becomes rows.
def run(people):
    pairs = zip(people["weight"], people["height"])
    return people.with_columns(bmi=[weight / height**2 for weight, height in pairs])
