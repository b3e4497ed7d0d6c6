//! Checks rules of the architecture that the compiler does not check. The `lib.rs` of a crate lists
//! its modules on numbered floors. A file imports only from lower floors or from its own folder.
//! Floor 0 lists other crates, which `lib.rs` re-exports. A file may also import them by their own
//! names. ARCHITECTURE.md says which crate may use which. No file may be too long.

use sandmill_tests::root;
use sandmill_tests::sources::{imports, module_of, read, rust_files, tokens};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The maximum length of a source file, in lines.
const MAX_LINES: usize = 600;

/// Folders whose Rust files must not exceed [`MAX_LINES`].
const MEASURED_FOLDERS: [&str; 5] = ["host", "guest-sdk", "tests", "examples", "benches"];

/// Crates that list floors.
const CRATES_WITH_FLOORS: [&str; 3] = ["host/src", "host/data/src", "host/guest/src"];

#[test]
fn imports_go_down() {
    let wrong = CRATES_WITH_FLOORS.map(wrong_imports).concat();
    assert!(wrong.is_empty(), "imports that break the floors of a crate's lib.rs:\n{wrong}");
}

/// The imports of a crate that break the floors of its `lib.rs`, one line each.
fn wrong_imports(sources: &str) -> String {
    let src = root().join(sources);
    let lib = read(&src.join("lib.rs"));
    let floors = floors(&lib);
    assert!(floors.len() > 3, "{sources}/lib.rs lists no floors as `//! 0. `model`` lines");

    let mut wrong = String::new();
    for module in declared_modules(&lib) {
        if !floors.contains_key(&module) {
            let _ = writeln!(wrong, "{sources}/lib.rs: `{module}` is on no floor; list it");
        }
        if floors.get(&module) == Some(&0) {
            let _ = writeln!(
                wrong,
                "{sources}/lib.rs: `{module}` is a module of this crate, but floor 0 is for other crates"
            );
        }
    }
    for path in rust_files(&src) {
        let inside = path.strip_prefix(&src).expect("rust_files stays below src");
        if inside == Path::new("lib.rs") || inside == Path::new("main.rs") {
            continue;
        }
        let module = module_of(inside);
        for (line, head) in heads(&read(&path), &module) {
            if let Some(rule) = broken_rule(&floors, &module[0], &head) {
                let _ = writeln!(wrong, "{sources}/{}:{line}: {rule}", inside.display());
            }
        }
    }
    wrong
}

/// Crates that the leader must not use: they belong to the node or the sandbox, parse untrusted bytes, or use
/// TLS.
const FORBIDDEN_IN_LEADER: [&str; 12] = [
    "arrow",
    "object_store",
    "ort",
    "parquet",
    "reqwest",
    "rustls",
    "sandmill-data",
    "sandmill-guest-host",
    "sandmill-node",
    "sandmill-wall",
    "tract",
    "wasmtime",
];

/// Checks all dependencies of the leader's crate, including indirect ones.
#[test]
fn the_leader_has_no_sandbox_no_parser_and_no_tls() {
    let tree = tree("normal,build", &["--package", "sandmill-leader"]);
    assert!(tree.contains("sandmill-files"), "{tree}");
    let wrong =
        tree.lines().filter(|line| FORBIDDEN_IN_LEADER.iter().any(|name| line.starts_with(name)));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<&str>::new());
}

/// The program's features, each with the libraries that only this feature adds to the program.
const FEATURE_LIBRARIES: [(&str, &[&str]); 3] = [
    ("inference", &["libloading", "ort", "tract-onnx"]),
    ("cuda", &["nvml-wrapper", "tract-cuda"]),
    ("stores", &["hyper", "object_store", "reqwest"]),
];

#[test]
fn a_build_has_only_the_libraries_of_its_features() {
    for set in 0..1 << FEATURE_LIBRARIES.len() {
        let is_in_set = |index: usize| set >> index & 1 == 1;
        let names: Vec<&str> = (0..FEATURE_LIBRARIES.len())
            .filter(|index| is_in_set(*index))
            .map(|index| FEATURE_LIBRARIES[index].0)
            .collect();
        let package = ["--package", "sandmill"];
        let features = names.join(",");
        let features = ["--no-default-features", "--features", &features];
        let tree = tree("normal,build", &[&package[..], &features].concat());
        let libraries: BTreeSet<&str> =
            tree.lines().filter_map(|line| line.split(' ').next()).collect();
        assert!(libraries.contains("wasmtime"), "{tree}");
        for (name, added) in FEATURE_LIBRARIES {
            // `cuda` implies `inference`.
            let is_expected =
                names.contains(&name) || name == "inference" && names.contains(&"cuda");
            for library in added {
                assert_eq!(libraries.contains(library), is_expected, "{library}, with {names:?}");
            }
        }
    }
}

/// Packages whose code depends on Sandmill's features. The Makefile's target `without` builds them.
const FEATURE_PACKAGES: [&str; 5] =
    ["sandmill", "sandmill-guest-host", "sandmill-node", "sandmill-store", "sandmill-without"];

/// In a build without Sandmill's features, all crates except [`FEATURE_PACKAGES`] have the same
/// features as in the build of the workspace. Otherwise, the tests of this build would compile
/// hundreds of crates a second time.
#[test]
fn a_build_without_features_shares_all_other_crates() {
    let built = |packages: &[&str]| {
        let format = ["--format", "{p} [{f}]"];
        let tree = tree("normal,build,dev", &[packages, &format].concat());
        let lines = tree.lines().map(|line| line.trim_end_matches(" (*)").to_owned());
        let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in lines.filter(|line| !line.is_empty()) {
            let (package, features) = line.split_once(" [").expect("as the format says");
            found.entry(package.to_owned()).or_default().insert(features.to_owned());
        }
        found
    };
    let workspace = built(&["--workspace"]);
    let packages = FEATURE_PACKAGES.map(|name| ["--package", name]);
    let without = built(&[packages.as_flattened(), &["--no-default-features"]].concat());
    assert!(without.len() > 300, "{without:#?}");
    for (package, features) in &without {
        let name = package.split(' ').next().unwrap_or_default();
        assert!(
            FEATURE_PACKAGES.contains(&name) || workspace.get(package) == Some(features),
            "{package} has {features:?} without features of Sandmill, and in the workspace {:?}; name it in \
             tests/without/Cargo.toml with these",
            workspace.get(package)
        );
    }
}

/// All dependencies of packages, including indirect ones, one line each.
fn tree(edges: &str, packages: &[&str]) -> String {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--edges", edges, "--prefix", "none"]);
    let output = cargo.args(packages).current_dir(root()).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn crates_use_each_other_as_the_architecture_says() {
    let documented: BTreeMap<String, BTreeSet<String>> = read(&root().join("ARCHITECTURE.md"))
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split_once(" uses "))
        .map(|(name, used)| {
            let used = used.split(", ").filter(|used| *used != "nothing");
            (name.trim().to_owned(), used.map(str::to_owned).collect())
        })
        .collect();
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(root().join("host")).expect("the host's folder can be read") {
        let folder = entry.expect("the host's folder can be read").path();
        let name = folder.file_name().expect("it has a name").to_string_lossy().into_owned();
        // The templates of `sandmill new` are not a crate of the host.
        if folder.join("Cargo.toml").is_file() && name != "templates" {
            found.insert(name, own_dependencies(&read(&folder.join("Cargo.toml"))));
        }
    }
    assert_eq!(found, documented, "manifests on the left, ARCHITECTURE.md on the right");
}

/// The crates of the host in the dependencies of a manifest, without dev-dependencies.
fn own_dependencies(manifest: &str) -> BTreeSet<String> {
    let mut in_dependencies = false;
    let mut found = BTreeSet::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            in_dependencies = line.contains("dependencies") && !line.contains("dev-dependencies");
        }
        if let Some((_, rest)) = line.split_once("sandmill-").filter(|_| in_dependencies) {
            let end = rest.find(|c: char| c != '-' && !c.is_alphanumeric()).unwrap_or(rest.len());
            // The package of host/guest has a longer name, because the SDK has the shorter one.
            found.insert(rest[..end].trim_end_matches("-host").to_owned());
        }
    }
    found
}

#[test]
fn finds_the_crates_that_a_manifest_names() {
    let manifest = "[package]\nname = \"sandmill-x\"\n[dependencies]\nlibc = \"1\"\nsandmill-data.workspace = true\n\
                    other = { package = \"sandmill-guest-host\" }\n[dev-dependencies]\nsandmill-spec = \"1\"\n\
                    [target.'cfg(unix)'.dependencies.sandmill-wall]\n[lints]\n";
    let found: Vec<String> = own_dependencies(manifest).into_iter().collect();
    assert_eq!(found, ["data", "guest", "wall"]);
}

#[test]
fn files_stay_short() {
    let mut wrong = String::new();
    for folder in MEASURED_FOLDERS {
        for path in rust_files(&root().join(folder)) {
            let lines = read(&path).lines().count();
            if lines > MAX_LINES {
                let shown = path.strip_prefix(root()).expect("below the root").display();
                let _ = writeln!(wrong, "{shown}: {lines} lines; split it by what it does");
            }
        }
    }
    assert!(wrong.is_empty(), "files longer than {MAX_LINES} lines:\n{wrong}");
}

/// The only files of `host` that may write to standard output or standard error, each with the reason. All
/// text for users goes through one of them, `src/cli/terminal.rs`, which escapes control characters.
const PRINTING: [(&str, &str); 14] = [
    ("guest/build.rs", "prints instructions for cargo"),
    ("src/cli/terminal.rs", "escapes and prints all text for users"),
    ("src/cli/palette.rs", "checks whether they are terminals, and how wide"),
    ("report/src/progress.rs", "the progress bar, which shows only numbers"),
    ("node/src/trial.rs", "a child process; its output is a pipe to its parent, which escapes it"),
    ("guest/src/compile/child.rs", "the same"),
    ("data/src/typed_output/child.rs", "the same"),
    ("guest/src/inference/models/trial.rs", "the same"),
    ("data/src/plan/serve.rs", "the same"),
    ("data/src/plan/shuffle/serve.rs", "the same"),
    ("store/src/network/serve.rs", "the same"),
    (
        "node/src/worker/attempt.rs",
        "a worker; its standard error is a log file, and the text is escaped",
    ),
    ("node/src/worker/serve.rs", "the same"),
    ("node/src/worker/session.rs", "the same"),
];

/// Only one module prints text for users, so that untrusted text is always escaped.
#[test]
fn only_the_terminal_module_prints() {
    let host = root().join("host");
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for path in rust_files(&host) {
        let inside = path.strip_prefix(&host).expect("below host").display().to_string();
        let is_test = |name: &str| name == "simulation" || name.contains("tests");
        let is_program =
            ["benches/", "build.rs", "templates/"].iter().any(|it| inside.starts_with(it));
        if is_program || inside.split(['/', '.']).any(is_test) {
            continue;
        }
        let source = read(&path);
        let code = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        if let Some(line) = first_printing_line(code) {
            found.insert(inside, line);
        }
    }
    for (path, line) in &found {
        let may = PRINTING.iter().any(|(allowed, _)| allowed == path);
        assert!(may, "host/{path}:{line} prints; use cli/terminal.rs instead");
    }
    for (path, _) in PRINTING {
        assert!(found.contains_key(path), "{path} prints nothing; remove it from the list");
    }
}

/// The first line that writes to standard output or standard error, directly or through `clap`.
fn first_printing_line(source: &str) -> Option<usize> {
    let tokens = tokens(source);
    let text = |at: usize| tokens.get(at).map_or("", |token| token.1.as_str());
    let is_print = |at: usize| match text(at) {
        "print" | "println" | "eprint" | "eprintln" | "dbg" => text(at + 1) == "!",
        // The methods of `Command` do not count.
        "stdout" | "stderr" => {
            let is_method = at > 0 && matches!(text(at - 1), "." | "fn");
            let is_exit = at > 1 && text(at - 1) == "::" && text(at - 2) == "terminal";
            text(at + 1) == "(" && !is_method && !is_exit
        }
        "stderr_with_hz" | "stdout_with_hz" | "anstream" => true,
        "parse" => at > 1 && text(at - 1) == "::" && text(at - 2) == "Cli",
        _ => false,
    };
    (0..tokens.len()).find(|at| is_print(*at)).map(|at| tokens[at].0)
}

#[test]
fn finds_every_way_to_print() {
    for printing in [
        "println!(\"x\");",
        "std::io::stderr().lock()",
        "use std::io::stdout; fn f() { stdout(); }",
        "Cli::parse()",
        "ProgressDrawTarget::stderr_with_hz(1)",
    ] {
        assert_eq!(first_printing_line(printing), Some(1), "{printing}");
    }
    for silent in ["command.stderr(x)", "terminal::stderr()", "// println!", "fn stderr() {}"] {
        assert_eq!(first_printing_line(silent), None, "{silent}");
    }
}

/// The reason why `folder` must not import the module `head`. `None` if it may.
fn broken_rule(floors: &BTreeMap<String, u32>, folder: &str, head: &str) -> Option<String> {
    let own_floor = match floors.get(folder) {
        Some(floor) => *floor,
        None => {
            return Some(format!("`{folder}` is on no floor; list it in the crate's lib.rs"));
        }
    };
    if head == folder {
        return None;
    }
    match floors.get(head) {
        None if head == "*" => Some("`crate::*` hides which floors are imported".to_owned()),
        None => Some(format!("`crate::{head}` is on no floor")),
        Some(floor) if *floor < own_floor => None,
        Some(floor) if *floor == own_floor => Some(format!(
            "`{folder}` imports `{head}`; both are on floor {own_floor} and must not know each other"
        )),
        Some(floor) => Some(format!(
            "`{folder}` (floor {own_floor}) imports `{head}` (floor {floor}); imports only go down"
        )),
    }
}

/// The floors that a `lib.rs` lists, in lines such as "//! 1. `event`, `protocol`".
fn floors(lib: &str) -> BTreeMap<String, u32> {
    let mut floors = BTreeMap::new();
    for line in lib.lines() {
        let Some((number, names)) = line.strip_prefix("//! ").and_then(|l| l.split_once(". "))
        else {
            continue;
        };
        let Ok(number) = number.parse::<u32>() else { continue };
        // Names are between backticks, so every second piece is a name.
        for name in names.split('`').skip(1).step_by(2) {
            floors.insert(name.to_owned(), number);
        }
    }
    floors
}

/// The modules that a `lib.rs` declares.
fn declared_modules(lib: &str) -> Vec<String> {
    lib.lines()
        .filter_map(|line| line.trim_start_matches("pub ").strip_prefix("mod "))
        .filter_map(|rest| rest.strip_suffix(';'))
        .map(str::to_owned)
        .collect()
}

/// The top-level modules of the crate that a module imports, each with its line.
fn heads(source: &str, module: &[String]) -> Vec<(usize, String)> {
    let imports = imports(&tokens(source), module).into_iter();
    let mut heads: Vec<(usize, String)> =
        imports.filter_map(|import| Some((import.line, import.path.into_iter().next()?))).collect();
    heads.dedup();
    heads
}

/// The checker's findings for a source in `plan/cut.rs`, as `line:head`.
fn found(source: &str) -> Vec<String> {
    let module = module_of(Path::new("plan/cut.rs"));
    heads(source, &module).into_iter().map(|(line, head)| format!("{line}:{head}")).collect()
}

#[test]
fn finds_every_way_to_import() {
    assert_eq!(found("use crate::model::{Input, ids::Id};"), ["1:model"]);
    assert_eq!(found("use crate::{\n model::{A, B},\n event,\n};"), ["2:model", "3:event"]);
    assert_eq!(found("fn f() {\n let x = crate::cli::run();\n}"), ["2:cli"]);
    assert_eq!(found("pub(in crate::plan) fn f() {}"), ["1:plan"]);
    assert_eq!(found("use super::super::engine::X;"), ["1:engine"]);
    assert_eq!(found("use super::sibling::X;"), ["1:plan"]);
    assert_eq!(found("mod tests { use super::super::sibling; }"), ["1:plan"]);
    assert_eq!(found("mod tests { use super::super::super::{engine}; }"), ["1:engine"]);
    assert_eq!(found("use crate::*;"), ["1:*"]);
}

#[test]
fn skips_comments_and_strings() {
    assert_eq!(found("// crate::cli\n/* crate::cli */ /// [`crate::cli`]"), Vec::<String>::new());
    assert_eq!(
        found(r##"let a = "crate::cli"; let b = br#"x" crate::cli"#;"##),
        Vec::<String>::new()
    );
    assert_eq!(found("$crate::cli; let q = '\"'; let l: &'a str; crate::event"), ["1:event"]);
}

#[test]
fn knows_the_rules() {
    let floors = floors("//! 0. `model`\n//! 5. `worker`, `pool`\n//! 7. `cli`\n");
    let rule = |folder, head| broken_rule(&floors, folder, head);
    assert_eq!(rule("worker", "model"), None);
    assert_eq!(rule("worker", "worker"), None);
    assert!(rule("worker", "pool").is_some_and(|r| r.contains("must not know each other")));
    assert!(rule("model", "cli").is_some_and(|r| r.contains("only go down")));
    assert!(rule("worker", "*").is_some());
    assert!(rule("elsewhere", "model").is_some());
    assert_eq!(module_of(Path::new("event.rs")), ["event"]);
    assert_eq!(module_of(Path::new("plan/mod.rs")), ["plan"]);
    assert_eq!(module_of(Path::new("plan/cut.rs")), ["plan", "cut"]);
}
