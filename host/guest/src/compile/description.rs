//! Describes what a component is and what it could access, by its imports and exports. Its code is not
//! analysed.

use super::hash::digest;
use super::{
    AcceptedKind, Artifact, CompileError, ImportVerdict, componentize, identify, judge_import,
    read_names,
};
use crate::model::on_one_line;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use wasmparser::component_types::ComponentEntityType;
use wasmparser::types::Types;
use wasmparser::{KnownCustom, Parser, Payload, Validator, WasmFeatures};

/// The size of a WebAssembly memory page, in bytes.
const PAGE_BYTES: u64 = 64 << 10;

/// A description of an entry script.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ScriptDescription {
    /// `component` or `core module`.
    pub kind: String,
    /// The size of the file.
    pub bytes: u64,
    /// The file's SHA-256, in hex.
    pub sha256: String,
    /// Its imports, in file order.
    pub imports: Vec<Import>,
    /// Its exports, in file order.
    pub exports: Vec<Export>,
    /// The kind of mini-batch that the entry script takes; `None` if it does not declare a kind.
    pub takes: Option<AcceptedKind>,
    /// The tools that made the file, as the file itself claims; sorted.
    pub producers: BTreeSet<Producer>,
    /// All memories that the file declares, including those of inner modules.
    pub memories: Vec<DeclaredMemory>,
    /// All tables that the file declares, including those of inner modules.
    pub tables: Vec<DeclaredTable>,
}

/// One name that a component imports.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Import {
    /// The name, with its version.
    pub name: String,
    /// The capability that the import gives.
    pub power: ImportPower,
    /// Why a job with this import does not start; `None` if the import is granted.
    pub refused: Option<String>,
}

/// One name that a component exports.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Export {
    /// The name, with its version.
    pub name: String,
    /// The functions of the interface; empty for other exports.
    pub functions: Vec<String>,
}

/// A tool or language that the component was made with.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Producer {
    /// `language`, `processed-by` or `sdk`.
    pub field: String,
    /// Its name.
    pub name: String,
    /// Its version, which may be empty.
    pub version: String,
}

/// A declared memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredMemory {
    /// The initial size.
    pub minimum_bytes: u64,
    /// The maximum size; `None` if the module sets no limit.
    pub maximum_bytes: Option<u64>,
}

/// A declared table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DeclaredTable {
    /// The initial number of elements.
    pub minimum: u64,
    /// The maximum number of elements; `None` if the module sets no limit.
    pub maximum: Option<u64>,
}

/// The capability that an import gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ImportPower {
    /// `wasi:filesystem`.
    Files,
    /// `wasi:sockets`.
    Network,
    /// `wasi:http`.
    Http,
    /// `wasi:clocks`.
    Clocks,
    /// `wasi:random`.
    RandomNumbers,
    /// `wasi:cli/environment`.
    Environment,
    /// Standard input, output, error and terminals.
    StandardStreams,
    /// `wasi:io`.
    Waiting,
    /// `wasi:cli/exit`.
    Exit,
    /// `sandmill:entry`.
    Sandmill,
    /// `wasi:nn`, and `sandmill:entry/models`.
    Inference,
    /// An import that Sandmill does not know.
    Unknown,
}

impl super::contract::ComponentNames {
    /// Whether the entry script imports an interface for inference, with which it may run models on the host.
    pub fn compute_with_models(&self) -> bool {
        self.imports.iter().any(|import| ImportPower::from_import(import) == ImportPower::Inference)
    }
}

impl ImportPower {
    /// The name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Network => "network",
            Self::Http => "HTTP",
            Self::Clocks => "clocks",
            Self::RandomNumbers => "random numbers",
            Self::Environment => "environment",
            Self::StandardStreams => "standard streams",
            Self::Waiting => "waiting",
            Self::Exit => "exit",
            Self::Sandmill => "Sandmill",
            Self::Inference => "inference",
            Self::Unknown => "unknown",
        }
    }

    /// What the capability gives an entry script, for the user.
    pub fn words(self) -> &'static str {
        match self {
            Self::Files => {
                "only those of the job: inputs, side inputs and source to read; output and log folders \
                 to write"
            }
            Self::Network => "none: every use of a socket and every DNS look-up is denied",
            Self::Http | Self::Unknown => "refused",
            Self::Clocks => "the date, measuring time and sleeping",
            Self::RandomNumbers => {
                "unpredictable; in a deterministic job, derived from the mini-batch"
            }
            Self::Environment => "the job's arguments and variables, not those of the machine",
            Self::StandardStreams => "an empty input; what it prints goes to its log files",
            Self::Waiting => "reading, writing and waiting for what the other imports give",
            Self::Exit => "ending itself, which fails the attempt",
            Self::Inference => "running the job's models, with no other access to the machine",
            Self::Sandmill => "the worker's name and folders, the log, and reading whole files",
        }
    }

    fn from_import(import: &str) -> Self {
        let name = import.split('@').next().unwrap_or_default();
        match name.split_once('/') {
            Some(("wasi:filesystem", _)) => Self::Files,
            Some(("wasi:sockets", _)) => Self::Network,
            Some(("wasi:http", _)) => Self::Http,
            Some(("wasi:clocks", _)) => Self::Clocks,
            Some(("wasi:random", _)) => Self::RandomNumbers,
            Some(("wasi:cli", "environment")) => Self::Environment,
            Some(("wasi:cli", "exit")) => Self::Exit,
            Some(("wasi:cli", _)) => Self::StandardStreams,
            Some(("wasi:io", _)) => Self::Waiting,
            Some(("wasi:nn", _) | ("sandmill:entry", "models")) => Self::Inference,
            Some(("sandmill:entry", _)) => Self::Sandmill,
            _ => Self::Unknown,
        }
    }
}

/// Describes a component, or a core module with WIT metadata.
///
/// # Errors
/// If the bytes are not a component or core module, or are damaged.
pub(super) fn describe(bytes: Vec<u8>) -> Result<ScriptDescription, CompileError> {
    let kind = match identify(&bytes)? {
        Artifact::Component => "component",
        Artifact::Module => "core module",
    };
    let size = bytes.len() as u64;
    let sha256 = digest(&bytes);
    let component = componentize(bytes)?;
    let damaged = |error| CompileError::new(format!("the file is a damaged component: {error}"));
    let types = Validator::new_with_features(WasmFeatures::all())
        .validate_all(&component)
        .map_err(damaged)?;
    let names = read_names(&component)?;
    let import = |name: String| {
        let refused = match judge_import(&name) {
            ImportVerdict::Granted(_) => None,
            ImportVerdict::Refused(why) => Some(why),
        };
        Import { power: ImportPower::from_import(&name), name, refused }
    };
    let export = |name: String| Export { functions: functions(&types, &name), name };
    let mut description = ScriptDescription {
        kind: kind.to_owned(),
        bytes: size,
        sha256,
        imports: names.imports.into_iter().map(import).collect(),
        exports: names.exports.into_iter().map(export).collect(),
        takes: AcceptedKind::read(&component),
        producers: BTreeSet::new(),
        memories: Vec::new(),
        tables: Vec::new(),
    };
    for payload in Parser::new(0).parse_all(&component) {
        add_section(&payload.map_err(damaged)?, &mut description).map_err(damaged)?;
    }
    Ok(description)
}

/// The functions of an exported interface; empty for any other export.
fn functions(types: &Types, export: &str) -> Vec<String> {
    let Some(item) = types.component_item_for_export(export) else { return Vec::new() };
    let ComponentEntityType::Instance(instance) = item.ty else { return Vec::new() };
    let exports = types[instance].exports.iter();
    exports
        .filter(|(_, item)| matches!(item.ty, ComponentEntityType::Func(_)))
        .map(|(name, _)| name.clone())
        .collect()
}

/// Adds the memories, tables or producers of a section to the description.
fn add_section(
    payload: &Payload<'_>,
    description: &mut ScriptDescription,
) -> wasmparser::Result<()> {
    match payload {
        Payload::MemorySection(section) => {
            for memory in section.clone() {
                let memory = memory?;
                let bytes = |pages: u64| pages.saturating_mul(PAGE_BYTES);
                description.memories.push(DeclaredMemory {
                    minimum_bytes: bytes(memory.initial),
                    maximum_bytes: memory.maximum.map(bytes),
                });
            }
        }
        Payload::TableSection(section) => {
            for table in section.clone() {
                let table = table?.ty;
                description
                    .tables
                    .push(DeclaredTable { minimum: table.initial, maximum: table.maximum });
            }
        }
        Payload::CustomSection(section) => {
            // The producers section is only information for the user, so a damaged one is ignored.
            if let KnownCustom::Producers(fields) = section.as_known() {
                for field in fields.into_iter().flatten() {
                    for value in field.values.into_iter().flatten() {
                        description.producers.insert(Producer {
                            field: field.name.to_owned(),
                            name: value.name.to_owned(),
                            version: value.version.to_owned(),
                        });
                    }
                }
            }
        }
        _ => {}
    }
    Ok(())
}

impl ScriptDescription {
    /// Escapes all control characters and invisible characters.
    #[must_use]
    pub fn printable(mut self) -> Self {
        let clean = |text: &mut String| *text = on_one_line(text).into_owned();
        clean(&mut self.kind);
        clean(&mut self.sha256);
        for import in &mut self.imports {
            clean(&mut import.name);
            import.refused.iter_mut().for_each(clean);
        }
        for export in &mut self.exports {
            clean(&mut export.name);
            export.functions.iter_mut().for_each(clean);
        }
        let producers = self.producers.into_iter().map(|mut producer| {
            clean(&mut producer.field);
            clean(&mut producer.name);
            clean(&mut producer.version);
            producer
        });
        self.producers = producers.collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing;

    #[test]
    fn modules_and_components_are_described_alike() {
        let module = testing::module("run-only", testing::RUN_EMPTY);
        let component = componentize(module.clone()).expect("fits");
        let module = describe(module).expect("a module");
        let component = describe(component).expect("a component");
        assert_eq!((module.kind.as_str(), component.kind.as_str()), ("core module", "component"));
        assert_eq!(module.exports, component.exports);
        assert_eq!(module.exports[0].functions, ["run"]);
        assert_eq!(module.memories, component.memories);
        assert_eq!(module.memories[0].minimum_bytes, 2 * PAGE_BYTES);
    }

    #[test]
    fn damaged_files_are_errors() {
        let mut damaged = testing::component("run-only", testing::RUN_EMPTY);
        let middle = damaged.len() / 2;
        damaged[middle..].fill(0xff);
        describe(damaged).expect_err("damaged");
        describe(b"no wasm".to_vec()).expect_err("a text");
    }
}
