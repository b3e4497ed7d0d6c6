"""Finds what a script imports without running it: parses it with `ast`, in the sandbox."""

import ast
import json
import os
import sys

# The runtime has only a part of these packages, so each name that is imported from them is checked.
_IN_PART = {"azureml", "azureml_user", "sandmill"}
_LARGEST = 4 << 20
# Where `sandmill python vendor` puts packages.
_PACKAGES = "python_packages"


def scan(path, is_here):
    """Scans the imports of the script at `path`, and of the modules in its folder that it imports.

    `is_here(module, name)`: whether the runtime can import the module, and from it the name, if a name is
    given. Returns a dict:
    - `error`: why the script cannot be read or parsed, or None;
    - `missing`: a list of dicts with `package`, `file`, `line`, `standard` (whether it is in the standard
      library), and `guarded` (whether the script may work without it);
    - `run`: what is wrong with its `run`, or None;
    - `changed`: a list of dicts with `file`, `line` and `what`, for code that may behave differently in
      pandas 3: see `_changed`.
    """
    folder = os.path.dirname(path)
    found = {"error": None, "missing": [], "run": None, "changed": []}
    known, waiting, named = set(), [path], set()
    while waiting:
        file = waiting.pop()
        if file in known:
            continue
        known.add(file)
        shown = os.path.relpath(file, folder)
        try:
            tree = _parsed(file, shown)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            found["error"] = found["error"] or _described(error, shown)
            continue
        if file == path:
            found["run"] = _wrong_run(tree)
        found["changed"] += [{"file": shown, "line": line, "what": what} for line, what in _changed(tree)]
        for module, name, line, guarded in _imports(tree, _package(file, folder)):
            beside = _beside(module, folder)
            if beside:
                waiting += beside
                continue
            package = module.partition(".")[0]
            vendored = os.path.join(folder, _PACKAGES, package)
            if package not in _IN_PART and (os.path.isdir(vendored) or os.path.isfile(vendored + ".py")):
                continue
            if package in _IN_PART and name not in (None, "*"):
                package = f"{module}.{name}" if is_here(module, None) else module
            elif package in _IN_PART:
                package, name = module, None
            else:
                name = None
            if guarded is None or is_here(module, name) or (package, guarded) in named:
                continue
            named.add((package, guarded))
            standard = package in sys.stdlib_module_names
            if package not in _IN_PART and is_here(package, None):
                # The package exists, but does not have this module.
                package = module
            found["missing"].append(
                {"package": package, "file": shown, "line": line, "guarded": guarded, "standard": standard}
            )
    found["missing"] += _needed(os.path.join(folder, _PACKAGES), is_here)
    found["missing"].sort(key=lambda missing: (missing["file"], missing["line"]))
    return found


def _parsed(file, shown):
    with open(file, "rb") as source:
        text = source.read(_LARGEST + 1)
    if len(text) > _LARGEST:
        raise ValueError(f"{shown} has more than {_LARGEST >> 20} MB, too much for a script")
    return ast.parse(text, shown)


def _described(error, shown):
    if isinstance(error, SyntaxError):
        line = f" (in: {error.text.strip()})" if error.text else ""
        return f"{error.filename or shown}, line {error.lineno}: {type(error).__name__}: {error.msg}{line}"
    if isinstance(error, OSError):
        return f"{shown} cannot be read: {error.strerror}"
    return f"{shown}: {error or type(error).__name__}"


def _wrong_run(tree):
    """What is wrong with the script's `run`, as far as its syntax shows. None if nothing is."""
    for node in tree.body:
        names = []
        match node:
            case ast.AsyncFunctionDef(name="run"):
                return "is async; write `def run(mini_batch):` without async"
            case ast.ClassDef(name="run"):
                return "is a class; write `def run(mini_batch):`"
            case ast.FunctionDef(name=name):
                names = [name]
            case ast.Assign(targets=targets):
                names = [target.id for target in targets if isinstance(target, ast.Name)]
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names = [alias.asname or alias.name for alias in imported]
            case ast.If() | ast.Try() | ast.With() | ast.Match() | ast.For() | ast.While():
                # `run` may be defined inside; the worker will check it.
                return None
        if "run" in names or "*" in names:
            return None
    return "is missing; write `def run(mini_batch):`"


def _needed(folder, is_here):
    """The modules that the packages in the folder need from the runtime, but that it does not have."""
    try:
        with open(os.path.join(folder, "sandmill.json")) as file:
            needs = json.load(file)["needs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    modules = {"beautifulsoup4": "bs4", "pillow": "PIL", "python-dateutil": "dateutil", "pyyaml": "yaml", "scikit-learn": "sklearn"}
    modules = [modules.get(name, str(name).replace("-", "_")) for name in needs]
    file = f"{_PACKAGES}/sandmill.json"
    return [
        {"package": module, "file": file, "line": 1, "guarded": False, "standard": False}
        for module in modules
        if not is_here(module, None)
    ]


def _changed(tree):
    """Lines that behave differently in pandas 3 than before, if they work on a DataFrame: `chained` (an
    assignment to a part of a part, which changes a copy), `inplace` (the same by a method), `object` (text
    columns have the type `str`)."""
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    imported |= {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    if "pandas" not in imported:
        return []
    found = set()
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets):
                found |= {(node.lineno, "chained") for target in targets if _is_part_of_part(target)}
            case ast.AugAssign(target=target) if _is_part_of_part(target):
                found.add((node.lineno, "chained"))
            case ast.Call(func=ast.Attribute(value=ast.Subscript()), keywords=keywords):
                if any(keyword.arg == "inplace" and getattr(keyword.value, "value", False) is True for keyword in keywords):
                    found.add((node.lineno, "inplace"))
            case ast.Compare(left=ast.Attribute(attr="dtype"), comparators=[kind]) if _is_object(kind):
                found.add((node.lineno, "object"))
            case ast.Call(func=ast.Attribute(attr="select_dtypes"), args=args, keywords=keywords):
                kinds = [*args, *(keyword.value for keyword in keywords)]
                if any(_is_object(kind) for outer in kinds for kind in getattr(outer, "elts", [outer])):
                    found.add((node.lineno, "object"))
    return sorted(found)


def _is_part_of_part(target):
    """`x[...][...]`, and `x.loc[...][...]`."""
    return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript)


def _is_object(kind):
    match kind:
        case ast.Name(id="object") | ast.Constant(value="object" | "O") | ast.Attribute(attr="object_"):
            return True
    return False


def _package(file, folder):
    """The package at which a file's relative imports begin, as a list of names."""
    return os.path.relpath(os.path.dirname(file), folder).replace(".", "", 1).strip("/").split("/")


def _imports(tree, package):
    """Each import: the module, the name that is imported from it, the line, and whether the script may work
    without it. The last one is None for an import that matters only if its file is in the script's folder."""
    waiting = [(tree, False)]
    while waiting:
        node, guarded = waiting.pop()
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name, None, node.lineno, guarded
            case ast.ImportFrom(module=module, level=0):
                for alias in node.names:
                    yield module, alias.name, node.lineno, guarded
                    # `from package import module` may name a file.
                    yield f"{module}.{alias.name}", None, node.lineno, None
            case ast.ImportFrom(module=module, level=level):
                base = [name for name in package if name]
                base = base[: len(base) - (level - 1)]
                whole = ".".join([*base, *([module] if module else [])])
                for name in [whole] if module else [f"{whole}.{alias.name}".lstrip(".") for alias in node.names]:
                    yield name, None, node.lineno, None
            case ast.Try(body=body, handlers=handlers) if any(map(_catches_import_errors, handlers)):
                waiting += [(child, True) for child in body]
                rest = [*handlers, *node.orelse, *node.finalbody]
                # The alternatives count as guarded, too.
                waiting += [(child, True) for child in rest]
            case ast.If(test=test) if _is_type_checking(test):
                waiting += [(child, guarded) for child in node.orelse]
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                waiting += [(child, True) for child in ast.iter_child_nodes(node)]
            case _:
                waiting += [(child, guarded) for child in ast.iter_child_nodes(node)]


def _catches_import_errors(handler):
    kinds = handler.type
    names = kinds.elts if isinstance(kinds, ast.Tuple) else [kinds]
    return any(
        kind is None
        or (isinstance(kind, ast.Name) and kind.id in ("ImportError", "ModuleNotFoundError", "Exception", "BaseException"))
        for kind in names
    )


def _is_type_checking(test):
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return True
    return False


def _beside(module, folder):
    """The files of a module in the source folder: the `__init__.py` of its packages, and the module's own
    file."""
    files = []
    path = folder
    for part in module.split("."):
        path = os.path.join(path, part)
        package = os.path.join(path, "__init__.py")
        if os.path.isfile(package):
            files.append(package)
        elif os.path.isfile(path + ".py"):
            return [*files, path + ".py"]
        elif not os.path.isdir(path):
            break
    return files
