"""The parameters of a script's `run`."""


def problem_with_parameters(required, allowed, needs_names):
    """What is wrong with the parameters of `run`, as the end of a sentence. `None` if nothing is.

    `required`: the number of positional arguments that `run` needs. `allowed`: the number that it accepts; `None`
    means any number. `needs_names`: whether it needs arguments by name.
    """
    advice = "write `def run(mini_batch):` or `def run(mini_batch, context):`"
    if needs_names:
        return f"needs an argument that is passed by name; {advice}"
    if allowed == 0:
        return f"takes no argument, but receives the mini-batch; {advice}"
    if required > 2:
        return f"needs {required} arguments, but receives at most the mini-batch and the context; {advice}"
    return None
