//! Whether a component keeps the contract of `wit/`: what it imports and exports, in words.
//!
//! Names are checked before compiling, which is quick; types after it, when the engine knows them.

use super::{CompileError, describe_function};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use wasmparser::{Parser, Payload};
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentFunc, ComponentItem};

/// What a component imports and exports at its top, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Names {
    /// Names of imports, with versions.
    pub imports: Vec<String>,
    /// Names of exports, with versions.
    pub exports: Vec<String>,
}

/// What a component is, as far as it can be told without compiling it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outline {
    /// Its size in bytes; of a core module, that of the component that it becomes.
    pub bytes: u64,
    /// What it imports and exports.
    pub names: Names,
}

/// What becomes of one import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ImportVerdict {
    /// It is granted; what it gives the guest, in words.
    Granted(&'static str),
    /// It is refused; why, and how to avoid it.
    Refused(String),
}

/// Where the functions of an entry script are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The exported instance that holds them; none if `run` is exported by itself.
    pub instance: Option<String>,
    /// Whether there is an `init`.
    pub init: bool,
    /// Whether there is a `shutdown`.
    pub shutdown: bool,
}

const INIT: &str = "func() -> result<_, string>";
const SHUTDOWN: &str = "func()";
const RUN: &str = "func(\
    variant { files(list<string>), table(list<u8>), void }, \
    record { id: u64, dataset: string, attempt: u32, \
    partition-key-value: list<tuple<string, string>> }) -> \
    result<variant { rows(list<string>), outcomes(list<result<string, string>>), \
    table(list<u8>) }, string>";

/// Reads the names at the top of a component, without looking deeper.
///
/// # Errors
/// If the bytes are no well-formed component.
pub fn read_names(component: &[u8]) -> Result<Names, CompileError> {
    let damaged = |error| CompileError::new(format!("the file is a damaged component: {error}"));
    let mut names = Names::default();
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(damaged)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(damaged)?;
                    // A type asks for nothing.
                    if !matches!(import.ty, wasmparser::ComponentTypeRef::Type(_)) {
                        names.imports.push(import.name.name.to_owned());
                    }
                }
            }
            Payload::ComponentExportSection(section) if depth == 0 => {
                for export in section {
                    names.exports.push(export.map_err(damaged)?.name.name.to_owned());
                }
            }
            _ => {}
        }
    }
    Ok(names)
}

/// Checks the names: imports only what is granted, exports something that can hold `run`.
///
/// # Errors
/// All that is wrong, at once.
pub fn check_names(names: &Names) -> Result<(), CompileError> {
    let mut text = String::new();
    for import in &names.imports {
        if let ImportVerdict::Refused(why) = judge_import(import) {
            let _ = write!(text, "\n  {import}: {why}");
        }
    }
    if !text.is_empty() {
        return Err(CompileError::new(format!(
            "the entry script imports what is not granted:{text}"
        )));
    }
    if names.exports.is_empty() {
        return Err(CompileError::new(format!("the component exports nothing. {WANTED}")));
    }
    for export in &names.exports {
        if let Some((package, version)) = split_version(export)
            && package.starts_with("sandmill:entry/entry")
            && !is_contract_version(version)
        {
            return Err(CompileError::new(format!(
                "the component exports {export}, made for version {version} of the contract, and \
                 this Sandmill keeps version 0.1: build it with an SDK of that version, or use \
                 the Sandmill that it was made for"
            )));
        }
    }
    Ok(())
}

const WANTED: &str = "An entry script exports the interface sandmill:entry/entry@0.1.0 (init, \
    run, shutdown) or sandmill:entry/entry-run@0.1.0 (run alone); sandmill-guest makes one";

/// Finds `run` in a compiled component and checks the types of all three functions.
///
/// # Errors
/// If there is no `run`, or a function has another type than the contract says.
pub fn find_entry(engine: &Engine, component: &Component) -> Result<Entry, CompileError> {
    let ty = component.component_type();
    let exports: Vec<(String, ComponentItem)> =
        ty.exports(engine).map(|(name, item)| (name.to_owned(), item.ty)).collect();
    let ours = |name: &str| {
        split_version(name).is_some_and(|(package, version)| {
            ["sandmill:entry/entry", "sandmill:entry/entry-run"].contains(&package)
                && is_contract_version(version)
        })
    };
    // The contract's own interface first, then anything that has a `run`.
    let (own, other): (Vec<_>, Vec<_>) = exports.iter().partition(|(name, _)| ours(name));
    let mut wrong_type = None;
    for (name, item) in own.into_iter().chain(other) {
        let found = match item {
            ComponentItem::ComponentInstance(instance) => Some((
                Some(name.clone()),
                instance
                    .exports(engine)
                    .filter_map(|(name, item)| function(name, item.ty))
                    .collect::<Vec<_>>(),
            )),
            ComponentItem::ComponentFunc(_) if name == "run" => Some((
                None,
                ty.exports(engine).filter_map(|(name, item)| function(name, item.ty)).collect(),
            )),
            _ => None,
        };
        let Some((instance, functions)) = found else { continue };
        match check_functions(instance.as_deref(), &functions) {
            Ok(Some(entry)) => return Ok(entry),
            Ok(None) => {}
            Err(error) => wrong_type = wrong_type.or(Some(error)),
        }
    }
    Err(wrong_type.unwrap_or_else(|| no_run(&exports)))
}

fn no_run(exports: &[(String, ComponentItem)]) -> CompileError {
    let names: Vec<&str> = exports.iter().map(|(name, _)| name.as_str()).collect();
    CompileError::new(format!(
        "the component does not export run (it exports {}). {WANTED}",
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    ))
}

fn function(name: &str, item: ComponentItem) -> Option<(String, ComponentFunc)> {
    match item {
        ComponentItem::ComponentFunc(function) => Some((name.to_owned(), function)),
        _ => None,
    }
}

/// An entry if there is a `run`; an error if it, or a function beside it, has the wrong type.
fn check_functions(
    instance: Option<&str>,
    functions: &[(String, ComponentFunc)],
) -> Result<Option<Entry>, CompileError> {
    let check = |wanted_name: &str, wanted: &str| {
        let Some((_, function)) = functions.iter().find(|(name, _)| name == wanted_name) else {
            return Ok(false);
        };
        let found = describe_function(function);
        if found == wanted {
            return Ok(true);
        }
        let at = instance.map_or(String::new(), |instance| format!(" of {instance}"));
        Err(CompileError::new(format!(
            "{wanted_name}{at} has the wrong type\n  found:    {found}\n  expected: {wanted}\n\
             Generate its bindings from the contract's wit/ folder"
        )))
    };
    if !check("run", RUN)? {
        return Ok(None);
    }
    let (init, shutdown) = (check("init", INIT)?, check("shutdown", SHUTDOWN)?);
    Ok(Some(Entry { instance: instance.map(str::to_owned), init, shutdown }))
}

/// Splits `a:b/c@1.2.3` into name and version.
fn split_version(name: &str) -> Option<(&str, &str)> {
    name.split_once('@')
}

fn is_contract_version(version: &str) -> bool {
    version.strip_prefix("0.1.").is_some_and(|patch| !patch.is_empty())
}

/// What an import gives the guest, or why it is refused.
pub fn judge_import(import: &str) -> ImportVerdict {
    use ImportVerdict::{Granted, Refused};
    let (name, version) = split_version(import).unwrap_or((import, ""));
    match name.split_once('/') {
        Some(("sandmill:entry", interface)) => judge_contract(interface, version),
        Some((package, interface)) if is_granted_wasi(package) => {
            if version != "0.2" && !version.starts_with("0.2.") {
                return Refused(format!(
                    "it is WASI {version}, and this Sandmill grants WASI 0.2: build for \
                     wasm32-wasip2, or with a toolchain of WASI 0.2"
                ));
            }
            wasi_words(package, interface).map_or_else(
                || {
                    let near = nearest(package, interface)
                        .map_or(String::new(), |near| format!(" (near to it is {package}/{near})"));
                    Refused(format!(
                        "Sandmill has no such interface of WASI 0.2{near}: update or change the \
                         toolchain, or leave out the library that needs it"
                    ))
                },
                Granted,
            )
        }
        Some(("wasi:nn", _)) => Refused(
            "it is for inference by the host, which this version of Sandmill does not have yet: \
             run the model in the entry script itself, with its weights as a side input"
                .into(),
        ),
        Some(("wasi:http", _)) => Refused(
            "it is for HTTP, and entry scripts have no network: bring the data in as an input or \
             side input, and leave the HTTP client out of the build"
                .into(),
        ),
        _ => Refused(
            "nothing of that name is granted; an entry script may import sandmill:entry/host and \
             WASI 0.2 (cli, clocks, filesystem, io, random, sockets): leave out the library that \
             needs it"
                .into(),
        ),
    }
}

fn judge_contract(interface: &str, version: &str) -> ImportVerdict {
    use ImportVerdict::{Granted, Refused};
    if !is_contract_version(version) {
        return Refused(format!(
            "it is version {version} of the contract, and this Sandmill keeps version 0.1: build \
             with an SDK of that version"
        ));
    }
    match interface {
        "host" => Granted("its own names and folders, its log, whole input files"),
        "types" => Granted("types only"),
        _ => Refused("the contract has no such interface to import".into()),
    }
}

fn is_granted_wasi(package: &str) -> bool {
    matches!(
        package,
        "wasi:cli" | "wasi:clocks" | "wasi:filesystem" | "wasi:io" | "wasi:random" | "wasi:sockets"
    )
}

/// The interfaces of WASI that are granted.
const WASI: [(&str, &[&str]); 6] = [
    (
        "wasi:cli",
        &[
            "environment",
            "exit",
            "stdin",
            "stdout",
            "stderr",
            "terminal-input",
            "terminal-output",
            "terminal-stdin",
            "terminal-stdout",
            "terminal-stderr",
        ],
    ),
    ("wasi:clocks", &["wall-clock", "monotonic-clock"]),
    ("wasi:filesystem", &["preopens", "types"]),
    ("wasi:io", &["error", "poll", "streams"]),
    ("wasi:random", &["random", "insecure", "insecure-seed"]),
    (
        "wasi:sockets",
        &[
            "tcp",
            "tcp-create-socket",
            "udp",
            "udp-create-socket",
            "instance-network",
            "network",
            "ip-name-lookup",
        ],
    ),
];

/// The granted interface whose name is most like this one, if any is.
fn nearest(package: &str, interface: &str) -> Option<&'static str> {
    let (_, known) = WASI.iter().find(|(name, _)| *name == package)?;
    let like = |name: &&str| strsim::jaro_winkler(name, interface);
    let best = known.iter().copied().max_by(|a, b| like(a).total_cmp(&like(b)))?;
    (like(&best) >= 0.8).then_some(best)
}

fn wasi_words(package: &str, interface: &str) -> Option<&'static str> {
    Some(match (package, interface) {
        ("wasi:cli", "environment") => "the job's arguments and environment variables",
        ("wasi:cli", "exit") => "ending itself",
        ("wasi:cli", "stdin") => "an empty standard input",
        ("wasi:cli", "stdout" | "stderr") => "writing to its log files",
        (
            "wasi:cli",
            "terminal-input" | "terminal-output" | "terminal-stdin" | "terminal-stdout"
            | "terminal-stderr",
        ) => "asking for a terminal; there is none",
        ("wasi:clocks", "wall-clock") => "the date and time",
        ("wasi:clocks", "monotonic-clock") => "measuring time and sleeping",
        ("wasi:filesystem", "preopens" | "types") => {
            "files: inputs, side inputs and source read-only; its output and log folders"
        }
        ("wasi:io", "error" | "poll" | "streams") => "reading and writing what others give",
        ("wasi:random", "random" | "insecure" | "insecure-seed") => "random numbers",
        (
            "wasi:sockets",
            "tcp" | "tcp-create-socket" | "udp" | "udp-create-socket" | "instance-network"
            | "network" | "ip-name-lookup",
        ) => "the network; every use is denied",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{engine, testing};

    fn entry(component: &[u8]) -> Result<Entry, CompileError> {
        let engine = engine(crate::compile::Instrumentation::default()).expect("engine");
        let component = Component::new(&engine, component).expect("compiles");
        find_entry(&engine, &component)
    }

    #[test]
    fn finds_both_kinds_of_entry_scripts() {
        let full = r#"RUN (i32.const 0))
            (func (export "NAME#init") (result i32) (i32.const 0))
            (func (export "NAME#shutdown"))"#;
        let full = testing::component("entry-script", full);
        let names = read_names(&full).expect("reads");
        assert_eq!(check_names(&names), Ok(()));
        assert_eq!(names.exports, ["sandmill:entry/entry@0.1.0"]);
        let found = entry(&full).expect("keeps the contract");
        assert!(found.init && found.shutdown);
        let found = entry(&testing::component("run-only", testing::RUN_EMPTY)).expect("keeps it");
        assert_eq!(found.instance.as_deref(), Some("sandmill:entry/entry-run@0.1.0"));
        assert!(!found.init && !found.shutdown);
    }

    #[test]
    fn takes_run_from_the_root_and_from_other_instances() {
        let types = r#"
            (type $pair (tuple string string))
            (type $batch' (variant (case "files" (list string)) (case "table" (list u8)) (case "void")))
            (import "batch" (type $batch (eq $batch')))
            (type $context' (record (field "id" u64) (field "dataset" string) (field "attempt" u32)
              (field "partition-key-value" (list $pair))))
            (import "context" (type $context (eq $context')))
            (type $results' (variant (case "rows" (list string))
              (case "outcomes" (list (result string (error string)))) (case "table" (list u8))))
            (import "results" (type $results (eq $results')))
            (core module $m
              (memory (export "memory") 1)
              (func (export "realloc") (param i32 i32 i32 i32) (result i32) unreachable)
              (func (export "run") (param i32 i32 i32 i64 i32 i32 i32 i32 i32) (result i32)
                i32.const 0))
            (core instance $i (instantiate $m))
            (func $run (param "b" $batch) (param "c" $context) (result (result $results (error string)))
              (canon lift (core func $i "run") (memory (core memory $i "memory"))
                (realloc (core func $i "realloc"))))"#;
        let root = format!(r#"(component {types} (export "run" (func $run)))"#);
        let found = entry(&wat::parse_str(root).expect("valid")).expect("accepted");
        assert_eq!(found, Entry { instance: None, init: false, shutdown: false });
    }

    #[test]
    fn a_component_without_run_is_refused() {
        let none = wat::parse_str("(component)").expect("valid");
        let error = check_names(&read_names(&none).expect("reads")).expect_err("nothing there");
        insta::assert_snapshot!(error, @"the component exports nothing. An entry script exports the interface sandmill:entry/entry@0.1.0 (init, run, shutdown) or sandmill:entry/entry-run@0.1.0 (run alone); sandmill-guest makes one");
        let other = r#"(component
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (export "start" (func $f)))"#;
        let error = entry(&wat::parse_str(other).expect("valid")).expect_err("no run");
        insta::assert_snapshot!(error, @"the component does not export run (it exports start). An entry script exports the interface sandmill:entry/entry@0.1.0 (init, run, shutdown) or sandmill:entry/entry-run@0.1.0 (run alone); sandmill-guest makes one");
        let wrong = other.replace("\"start\"", "\"run\"");
        let error = entry(&wat::parse_str(wrong).expect("valid")).expect_err("wrong type");
        insta::assert_snapshot!(error, @r"
        run has the wrong type
          found:    func()
          expected: func(variant { files(list<string>), table(list<u8>), void }, record { id: u64, dataset: string, attempt: u32, partition-key-value: list<tuple<string, string>> }) -> result<variant { rows(list<string>), outcomes(list<result<string, string>>), table(list<u8>) }, string>
        Generate its bindings from the contract's wit/ folder
        ");
    }

    #[test]
    fn each_name_of_the_list_is_granted() {
        for (package, interfaces) in WASI {
            for interface in interfaces {
                let name = format!("{package}/{interface}@0.2.12");
                assert!(matches!(judge_import(&name), ImportVerdict::Granted(_)), "{name}");
            }
        }
        for name in ["wasi:cli/run@0.2.0", "wasi:sockets/tls@0.2.0", "wasi:config/store@0.2.0"] {
            assert!(matches!(judge_import(name), ImportVerdict::Refused(_)), "{name}");
        }
    }

    #[test]
    fn imports_that_are_not_granted_are_all_named() {
        let names = Names {
            imports: [
                "sandmill:entry/host@0.1.3",
                "sandmill:entry/host@0.2.0",
                "wasi:cli/environment@0.2.0",
                "wasi:cli/environment@0.3.0",
                "wasi:cli/enviroment@0.2.0",
                "wasi:clocks/timezone@0.2.0",
                "wasi:http/outgoing-handler@0.2.4",
                "wasi:nn/inference@0.2.0-rc-2024-10-28",
                "wasi:sockets/tcp@0.2.6",
                "env",
            ]
            .map(str::to_owned)
            .to_vec(),
            exports: vec!["sandmill:entry/entry@0.1.0".to_owned()],
        };
        insta::assert_snapshot!(check_names(&names).expect_err("refused"), @"
        the entry script imports what is not granted:
          sandmill:entry/host@0.2.0: it is version 0.2.0 of the contract, and this Sandmill keeps version 0.1: build with an SDK of that version
          wasi:cli/environment@0.3.0: it is WASI 0.3.0, and this Sandmill grants WASI 0.2: build for wasm32-wasip2, or with a toolchain of WASI 0.2
          wasi:cli/enviroment@0.2.0: Sandmill has no such interface of WASI 0.2 (near to it is wasi:cli/environment): update or change the toolchain, or leave out the library that needs it
          wasi:clocks/timezone@0.2.0: Sandmill has no such interface of WASI 0.2: update or change the toolchain, or leave out the library that needs it
          wasi:http/outgoing-handler@0.2.4: it is for HTTP, and entry scripts have no network: bring the data in as an input or side input, and leave the HTTP client out of the build
          wasi:nn/inference@0.2.0-rc-2024-10-28: it is for inference by the host, which this version of Sandmill does not have yet: run the model in the entry script itself, with its weights as a side input
          env: nothing of that name is granted; an entry script may import sandmill:entry/host and WASI 0.2 (cli, clocks, filesystem, io, random, sockets): leave out the library that needs it
        ");
    }
}
