"""Finds what a script imports without running it: parses it with `ast`, in the sandbox."""

import ast
import json
import os
import sys

from ._folders import import_folders, source_folder
from ._parameters import problem_with_parameters

# The runtime has only a part of these packages, so each name that is imported from them is checked.
_PARTIAL_PACKAGES = {"azureml", "azureml_user", "sandmill"}
_MAX_SCRIPT_BYTES = 4 << 20
# The folder beside the script into which `sandmill python vendor` installs packages.
_VENDORED_FOLDER = "python_packages"


def scan(path, is_available):
    """Scans the imports of the script at `path`, and of the modules in its folders that it imports.

    `is_available(module, name)`: whether the runtime can import the module, and from it the name, if `name` is
    not None. Returns a dict:
    - `error`: why the script cannot be read or parsed, or None;
    - `packages`: the names of the packages outside the standard library that the runtime has, sorted;
    - `missing`: a list of dicts with `package`, `file`, `line`, `standard` (whether it is in the standard
      library), and `guarded` (whether the script may work without it);
    - `run`: what is wrong with the script's function `run`, or None;
    - `changed`: a list of dicts with `file`, `line` and `what`, for code that may behave differently in
      pandas 3: see `_pandas_3_changes`.
    """
    root, folders = source_folder(path), import_folders(path)
    found = {"error": None, "packages": [], "missing": [], "run": None, "changed": []}
    seen, reported, packages = set(), set(), set()
    # `needed`: files that the script needs, which are scanned first. `optional`: files that it may work without. So
    # a file that the script imports in both ways counts as needed.
    needed, optional = [path], []
    while needed or optional:
        is_optional = not needed
        file = (needed or optional).pop()
        if file in seen:
            continue
        seen.add(file)
        relative_path = os.path.relpath(file, root)
        try:
            tree = _parse(file, relative_path)
        except (OSError, SyntaxError, ValueError, RecursionError, MemoryError) as error:
            found["error"] = found["error"] or _parse_error(error, relative_path)
            continue
        if file == path:
            found["run"] = _problem_with_run(tree)
        found["changed"] += [{"file": relative_path, "line": line, "what": what} for line, what in _pandas_3_changes(tree)]
        for module, name, line, guarded, may_be_file in _imports(tree, _package(file, folders)):
            guarded = guarded or is_optional
            own_files = next(filter(None, (_own_files(module, folder) for folder in folders)), [])
            if own_files:
                (optional if guarded else needed).extend(own_files)
                continue
            package = module.partition(".")[0]
            is_folder = any(os.path.isdir(os.path.join(folder, *module.split("."))) for folder in folders)
            if is_folder and not is_available(package, None):
                # A package without `__init__.py`.
                continue
            vendored = [os.path.join(folder, _VENDORED_FOLDER, package) for folder in folders]
            if package not in _PARTIAL_PACKAGES and any(os.path.isdir(path) or os.path.isfile(path + ".py") for path in vendored):
                continue
            if package in _PARTIAL_PACKAGES and name not in (None, "*"):
                package = f"{module}.{name}" if is_available(module, None) else module
            elif package in _PARTIAL_PACKAGES:
                package, name = module, None
            else:
                name = None
            if may_be_file:
                continue
            is_standard = package in sys.stdlib_module_names
            if is_available(module, name):
                if not is_standard:
                    packages.add(package)
                continue
            if (package, guarded) in reported:
                continue
            reported.add((package, guarded))
            if package not in _PARTIAL_PACKAGES and is_available(package, None):
                # The package exists, but does not have this module.
                package = module
            found["missing"].append(
                {"package": package, "file": relative_path, "line": line, "guarded": guarded, "standard": is_standard}
            )
    for folder in folders:
        found["missing"] += _missing_dependencies(os.path.join(folder, _VENDORED_FOLDER), is_available)
    found["packages"] = sorted(packages)
    found["missing"].sort(key=lambda missing: (missing["file"], missing["line"]))
    return found


def _parse(file, relative_path):
    with open(file, "rb") as source:
        text = source.read(_MAX_SCRIPT_BYTES + 1)
    if len(text) > _MAX_SCRIPT_BYTES:
        raise ValueError(f"{relative_path} has more than {_MAX_SCRIPT_BYTES >> 20} MB, too much for a script")
    return ast.parse(text, relative_path)


def _parse_error(error, relative_path):
    if isinstance(error, SyntaxError):
        where = f"{error.filename or relative_path}, line {error.lineno}" if error.lineno else relative_path
        line = f" (in: {error.text.strip()})" if error.text else ""
        return f"{where}: {type(error).__name__}: {error.msg}{line}"
    if isinstance(error, OSError):
        return f"{relative_path} cannot be read: {error.strerror}"
    return f"{relative_path}: {error or type(error).__name__}"


def _problem_with_run(tree):
    """What is wrong with the script's `run`. `None` if the syntax shows no problem: then the worker checks it."""
    if any(map(_may_bind_names, ast.walk(tree))):
        return None
    problems = []
    for node in tree.body:
        names = []
        match node:
            case ast.AsyncFunctionDef(name="run"):
                problems.append("is async; write `def run(mini_batch):` without async")
            case ast.ClassDef(name="run"):
                problems.append("is a class; write `def run(mini_batch):`")
            case ast.FunctionDef(name="run", args=arguments, decorator_list=[]):
                problems.append(problem_with_parameters(*_counts(arguments)))
            case ast.FunctionDef(name=name):
                names = [name]
            case ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Expr():
                names = [name.id for name in ast.walk(node) if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store)]
            case ast.Import(names=imported) | ast.ImportFrom(names=imported):
                names = [alias.asname or alias.name for alias in imported]
            case ast.If() | ast.Try() | ast.TryStar() | ast.With() | ast.Match() | ast.For() | ast.While():
                # `run` may be defined inside.
                return None
        if "run" in names or "*" in names:
            return None
    if not problems:
        return "is missing; write `def run(mini_batch):`"
    # Of several definitions, one may use another.
    return problems[0] if len(problems) == 1 else None


def _may_bind_names(node):
    """Whether a node may define `run` in a way that the syntax does not show."""
    match node:
        case ast.Global(names=names):
            return "run" in names
        case ast.Name(id="globals" | "vars" | "exec" | "setattr") | ast.FunctionDef(name="__getattr__"):
            return True
    return False


def _counts(arguments):
    """The arguments of `problem_with_parameters` for a function's syntax."""
    positional = [*arguments.posonlyargs, *arguments.args]
    needs_names = any(default is None for default in arguments.kw_defaults)
    return len(positional) - len(arguments.defaults), None if arguments.vararg else len(positional), needs_names


def _missing_dependencies(folder, is_available):
    """The modules that vendored packages in the folder need, but that the runtime does not have."""
    try:
        with open(os.path.join(folder, "sandmill.json")) as file:
            needs = json.load(file)["needs"]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    modules = {"beautifulsoup4": "bs4", "pillow": "PIL", "python-dateutil": "dateutil", "pyyaml": "yaml", "scikit-learn": "sklearn"}
    modules = [modules.get(name, str(name).replace("-", "_")) for name in needs]
    file = f"{_VENDORED_FOLDER}/sandmill.json"
    return [
        {"package": module, "file": file, "line": 1, "guarded": False, "standard": False}
        for module in modules
        if not is_available(module, None)
    ]


def _pandas_3_changes(tree):
    """Lines that behave differently in pandas 3 than before, if they work on a DataFrame, as pairs of the line
    number and the kind of change:
    - `chained`: an assignment to a part of a part, such as `frame["a"][0] = 1`, changes a copy;
    - `inplace`: a method with `inplace=True` on a part of a frame also changes a copy;
    - `object`: text columns have the type `str`, so a test for `object` does not find them.
    """
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
            case ast.Compare(left=ast.Attribute(attr="dtype"), comparators=[dtype]) if _is_object(dtype):
                found.add((node.lineno, "object"))
            case ast.Call(func=ast.Attribute(attr="select_dtypes"), args=args, keywords=keywords):
                values = [*args, *(keyword.value for keyword in keywords)]
                # A value may be a list of dtypes.
                if any(_is_object(dtype) for value in values for dtype in getattr(value, "elts", [value])):
                    found.add((node.lineno, "object"))
    return sorted(found)


def _is_part_of_part(target):
    """Whether the target has the form `x[...][...]` or `x.loc[...][...]`."""
    return isinstance(target, ast.Subscript) and isinstance(target.value, ast.Subscript)


def _is_object(dtype):
    match dtype:
        case ast.Name(id="object") | ast.Constant(value="object" | "O") | ast.Attribute(attr="object_"):
            return True
    return False


def _package(file, folders):
    """The package to which a file's relative imports refer, as a list of names."""
    folder = next((folder for folder in folders if file.startswith(folder + "/")), folders[0])
    return os.path.relpath(os.path.dirname(file), folder).replace(".", "", 1).strip("/").split("/")


def _imports(tree, package):
    """Each import: the module, the name that is imported from it, the line, `guarded`: whether the script may work
    without the import, and `may_be_file`: whether the import matters only if its file is in the script's folder."""
    waiting = [(tree, False)]
    while waiting:
        node, guarded = waiting.pop()
        match node:
            case ast.Import(names=names):
                for alias in names:
                    yield alias.name, None, node.lineno, guarded, False
            case ast.ImportFrom(module=module, level=0):
                for alias in node.names:
                    yield module, alias.name, node.lineno, guarded, False
                    # `from package import module` may name a file.
                    yield f"{module}.{alias.name}", None, node.lineno, guarded, True
            case ast.ImportFrom(module=module, level=level):
                base = [name for name in package if name]
                base = base[: len(base) - (level - 1)]
                full_name = ".".join([*base, *([module] if module else [])])
                for name in [full_name] if module else [f"{full_name}.{alias.name}".lstrip(".") for alias in node.names]:
                    yield name, None, node.lineno, guarded, True
            case ast.Try(handlers=handlers) | ast.TryStar(handlers=handlers) if any(map(_catches_import_errors, handlers)):
                # The script may also work without the imports of the handlers.
                waiting += [(child, True) for child in ast.iter_child_nodes(node)]
            case ast.With(items=items, body=body) if any(map(_suppresses_import_errors, items)):
                waiting += [(child, True) for child in body]
            case ast.If(test=test) if _is_type_checking(test) or _is_main(test):
                # The condition is never true where Sandmill runs the script.
                waiting += [(child, guarded) for child in node.orelse]
            case ast.If() | ast.Match() | ast.For() | ast.While() | ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
                # We do not know which of these lines run.
                waiting += [(child, True) for child in ast.iter_child_nodes(node)]
            case _:
                waiting += [(child, guarded) for child in ast.iter_child_nodes(node)]


def _catches_import_errors(handler):
    caught = handler.type
    exceptions = caught.elts if isinstance(caught, ast.Tuple) else [caught]
    return any(exception is None or _is_import_error(exception) for exception in exceptions)


def _suppresses_import_errors(item):
    """Whether a `with` is `suppress(ImportError)` of `contextlib`."""
    match item.context_expr:
        case ast.Call(func=ast.Name(id="suppress") | ast.Attribute(attr="suppress"), args=exceptions):
            return any(map(_is_import_error, exceptions))
    return False


def _is_import_error(exception):
    name = exception.attr if isinstance(exception, ast.Attribute) else getattr(exception, "id", None)
    return name in ("ImportError", "ModuleNotFoundError", "Exception", "BaseException")


def _is_main(test):
    """Whether a condition is `__name__ == "__main__"`."""
    match test:
        case ast.Compare(left=ast.Name(id="__name__"), ops=[ast.Eq()], comparators=[ast.Constant(value="__main__")]):
            return True
    return False


def _is_type_checking(test):
    match test:
        case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
            return True
    return False


def _own_files(module, folder):
    """The files of a module that is in the script's folder: the `__init__.py` of its packages, and the
    module's file. Empty for other modules."""
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
