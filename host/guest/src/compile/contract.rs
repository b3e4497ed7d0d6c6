//! Checks that the imports and exports of a component keep the contract (the interfaces in `wit/`). The
//! module `imports` judges each import.
//!
//! Names are checked before compiling, because this is quick. Types are checked after compiling, because only
//! then does the engine know them.

use super::imports::{is_contract_version, split_version};
use super::{AcceptedKind, CompileError, ImportVerdict, describe_function, judge_import};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use wasmparser::{Parser, Payload};
use wasmtime::Engine;
use wasmtime::component::Component;
use wasmtime::component::types::{ComponentFunc, ComponentItem};

/// The top-level imports and exports of a component, in file order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentNames {
    /// Names of imports, with versions.
    pub imports: Vec<String>,
    /// Names of exports, with versions.
    pub exports: Vec<String>,
}

/// What is known about a component without compiling it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComponentOutline {
    /// The component's size in bytes. For a core module: the size of the component that is made
    /// from it.
    pub bytes: u64,
    /// What it imports and exports.
    pub names: ComponentNames,
    /// The kind of mini-batch that the entry script takes; `None` if it does not declare a kind.
    pub takes: Option<AcceptedKind>,
}

/// Where the functions of an entry script are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryFunctions {
    /// The exported interface that has the functions; `None` if `run` is exported at the top level.
    pub instance: Option<String>,
    /// Whether there is an `init`.
    pub init: bool,
    /// Whether there is a `shutdown`.
    pub shutdown: bool,
}

const INIT_TYPE: &str = "func() -> result<_, string>";
const SHUTDOWN_TYPE: &str = "func()";
const RUN_TYPE: &str = "func(\
    variant { files(list<string>), table(list<u8>), void }, \
    record { id: u64, dataset: string, attempt: u32, \
    partition-key-value: list<tuple<string, string>> }) -> \
    result<variant { rows(list<string>), outcomes(list<result<string, string>>), \
    table(list<u8>) }, string>";

/// Reads the top-level names of a component.
///
/// # Errors
/// If the bytes are not a well-formed component.
pub fn read_names(component: &[u8]) -> Result<ComponentNames, CompileError> {
    let damaged = |error| CompileError::new(format!("the file is a damaged component: {error}"));
    let mut names = ComponentNames::default();
    let mut depth = 0usize;
    for payload in Parser::new(0).parse_all(component) {
        match payload.map_err(damaged)? {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::ComponentImportSection(section) if depth == 0 => {
                for import in section {
                    let import = import.map_err(damaged)?;
                    // Leave out types, because a type is not a capability.
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

/// Checks that all imports are granted, that there are exports, and that no export is for another version of
/// the contract.
///
/// # Errors
/// The error lists all refused imports.
pub fn check_names(names: &ComponentNames) -> Result<(), CompileError> {
    let mut text = String::new();
    for import in &names.imports {
        if let ImportVerdict::Refused(why) = judge_import(import) {
            let _ = write!(text, "\n  {import}: {why}");
        }
    }
    if !text.is_empty() {
        return Err(CompileError::new(format!(
            "the entry script imports interfaces that are not granted:{text}"
        )));
    }
    if names.exports.is_empty() {
        return Err(CompileError::new(format!(
            "the component exports nothing. {REQUIRED_EXPORTS}"
        )));
    }
    for export in &names.exports {
        if let Some((package, version)) = split_version(export)
            && package.starts_with("sandmill:entry/entry")
            && !is_contract_version(version)
        {
            return Err(CompileError::new(format!(
                "the component exports {export}, made for version {version} of the contract, and \
                 this Sandmill supports versions 0.1 and 0.2: build it with an SDK of such a \
                 version, or use the Sandmill that it was made for"
            )));
        }
    }
    Ok(())
}

const REQUIRED_EXPORTS: &str = "An entry script exports the interface sandmill:entry/entry@0.2.0 (init, \
    run, shutdown) or sandmill:entry/entry-run@0.2.0 (run only); sandmill-guest makes one";

/// Finds `run` in a compiled component and checks the types of all three functions.
///
/// # Errors
/// If there is no `run`, or if the type of a function differs from the contract.
pub fn find_entry(engine: &Engine, component: &Component) -> Result<EntryFunctions, CompileError> {
    let ty = component.component_type();
    let exports: Vec<(String, ComponentItem)> =
        ty.exports(engine).map(|(name, item)| (name.to_owned(), item.ty)).collect();
    let is_contract_interface = |name: &str| {
        split_version(name).is_some_and(|(package, version)| {
            ["sandmill:entry/entry", "sandmill:entry/entry-run"].contains(&package)
                && is_contract_version(version)
        })
    };
    // The contract's own interface comes first, then any other export that has a `run`.
    let (own, other): (Vec<_>, Vec<_>) =
        exports.iter().partition(|(name, _)| is_contract_interface(name));
    let mut wrong_type = None;
    for (name, item) in own.into_iter().chain(other) {
        let found = match item {
            ComponentItem::ComponentInstance(instance) => Some((
                Some(name.clone()),
                instance
                    .exports(engine)
                    .filter_map(|(name, item)| as_function(name, item.ty))
                    .collect::<Vec<_>>(),
            )),
            ComponentItem::ComponentFunc(_) if name == "run" => Some((
                None,
                ty.exports(engine).filter_map(|(name, item)| as_function(name, item.ty)).collect(),
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
    Err(wrong_type.unwrap_or_else(|| no_run_error(&exports)))
}

fn no_run_error(exports: &[(String, ComponentItem)]) -> CompileError {
    let names: Vec<&str> = exports.iter().map(|(name, _)| name.as_str()).collect();
    CompileError::new(format!(
        "the component does not export run (it exports {}). {REQUIRED_EXPORTS}",
        if names.is_empty() { "nothing".to_owned() } else { names.join(", ") }
    ))
}

fn as_function(name: &str, item: ComponentItem) -> Option<(String, ComponentFunc)> {
    match item {
        ComponentItem::ComponentFunc(function) => Some((name.to_owned(), function)),
        _ => None,
    }
}

/// Returns the entry functions; `None` if there is no `run`. Fails if `run`, `init` or `shutdown` has the
/// wrong type.
fn check_functions(
    instance: Option<&str>,
    functions: &[(String, ComponentFunc)],
) -> Result<Option<EntryFunctions>, CompileError> {
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
    if !check("run", RUN_TYPE)? {
        return Ok(None);
    }
    let init = check("init", INIT_TYPE)?;
    let shutdown = check("shutdown", SHUTDOWN_TYPE)?;
    Ok(Some(EntryFunctions { instance: instance.map(str::to_owned), init, shutdown }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::{engine, testing};

    fn entry(component: &[u8]) -> Result<EntryFunctions, CompileError> {
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
        assert_eq!(names.exports, ["sandmill:entry/entry@0.2.0"]);
        let found = entry(&full).expect("keeps the contract");
        assert!(found.init && found.shutdown);
        let found = entry(&testing::component("run-only", testing::RUN_EMPTY)).expect("keeps it");
        assert_eq!(found.instance.as_deref(), Some("sandmill:entry/entry-run@0.2.0"));
        assert!(!found.init && !found.shutdown);
    }

    #[test]
    fn run_may_be_exported_at_the_top_level() {
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
        assert_eq!(found, EntryFunctions { instance: None, init: false, shutdown: false });
    }

    #[test]
    fn a_component_without_run_is_refused() {
        let none = wat::parse_str("(component)").expect("valid");
        let error = check_names(&read_names(&none).expect("reads")).expect_err("nothing there");
        insta::assert_snapshot!(error, @"the component exports nothing. An entry script exports the interface sandmill:entry/entry@0.2.0 (init, run, shutdown) or sandmill:entry/entry-run@0.2.0 (run only); sandmill-guest makes one");
        let other = r#"(component
            (core module $m (func (export "f")))
            (core instance $i (instantiate $m))
            (func $f (canon lift (core func $i "f")))
            (export "start" (func $f)))"#;
        let error = entry(&wat::parse_str(other).expect("valid")).expect_err("no run");
        insta::assert_snapshot!(error, @"the component does not export run (it exports start). An entry script exports the interface sandmill:entry/entry@0.2.0 (init, run, shutdown) or sandmill:entry/entry-run@0.2.0 (run only); sandmill-guest makes one");
        let wrong = other.replace("\"start\"", "\"run\"");
        let error = entry(&wat::parse_str(wrong).expect("valid")).expect_err("wrong type");
        insta::assert_snapshot!(error, @r"
        run has the wrong type
          found:    func()
          expected: func(variant { files(list<string>), table(list<u8>), void }, record { id: u64, dataset: string, attempt: u32, partition-key-value: list<tuple<string, string>> }) -> result<variant { rows(list<string>), outcomes(list<result<string, string>>), table(list<u8>) }, string>
        Generate its bindings from the contract's wit/ folder
        ");
    }
}
