//! The contract (the WIT files in `wit/`), as an interpreter's glue needs it.

use super::super::CompileError;
use crate::features::HAS_INFERENCE;
use wit_parser::abi::{AbiVariant, WasmType};
use wit_parser::{Resolve, UnresolvedPackageGroup, WorldId, WorldItem};

/// The WIT files: paths in `wit/`, and texts. The contract itself is first, followed by the interfaces that
/// it uses.
pub const WIT: &[(&str, &str)] = embedded!("wit":
    "entry.wit",
    "deps/cli.wit",
    "deps/clocks.wit",
    "deps/filesystem.wit",
    "deps/io.wit",
    "deps/nn.wit",
    "deps/random.wit",
    "deps/sockets.wit",
);

const WORLD: &str = include_str!("../../../../../python/science/world.wit");

/// The host functions that the interpreter calls. Each line has an interface and a name; the line's position
/// is the function's number.
const IMPORTS: &str = include_str!("../../../../../python/science/imports.txt");

/// Prefixes of the functions that exist only in builds with inference.
const INFERENCE_PREFIXES: [&str; 2] = ["sandmill:entry/models@", "wasi:nn/"];

/// The host functions that an interpreter may call. A function's number is its index.
pub fn host_functions() -> Vec<&'static str> {
    let is_available = |line: &&str| {
        HAS_INFERENCE || !INFERENCE_PREFIXES.iter().any(|prefix| line.starts_with(prefix))
    };
    IMPORTS.lines().filter(is_available).collect()
}

/// A host function, with its signature in core WebAssembly. All its parameters are 32-bit numbers.
pub(super) struct HostFunction {
    pub(super) interface: &'static str,
    pub(super) name: &'static str,
    pub(super) parameters: usize,
    pub(super) has_result: bool,
}

/// The parsed world of an interpreter.
pub(super) struct ParsedWorld {
    pub(super) resolve: Resolve,
    pub(super) world: WorldId,
}

impl ParsedWorld {
    /// Parses the WIT files.
    ///
    /// # Errors
    /// If the WIT files in this program are inconsistent.
    pub(super) fn parse() -> Result<Self, CompileError> {
        let parse = || {
            let group = |name: &str, text: &str| {
                UnresolvedPackageGroup::parse(name, text).map_err(|(_, error)| error.to_string())
            };
            let others = WIT.iter().map(|(name, text)| group(name, text));
            let others = others.collect::<Result<Vec<_>, _>>()?;
            let mut resolve = Resolve::default();
            let package = resolve
                .push_groups(group("world.wit", WORLD)?, others)
                .map_err(|error| error.to_string())?;
            let name = if HAS_INFERENCE { "science" } else { "science-without-inference" };
            let world =
                resolve.select_world(&[package], Some(name)).map_err(|error| error.to_string())?;
            Ok(Self { resolve, world })
        };
        parse()
            .map_err(|error: String| CompileError(format!("the contract cannot be read: {error}")))
    }

    /// Looks up the functions of [`host_functions`].
    ///
    /// # Errors
    /// If the world lacks a function, or a function has parameters that are not 32-bit numbers.
    pub(super) fn functions(&self) -> Result<Vec<HostFunction>, CompileError> {
        let function = |line: &'static str| {
            self.function(line).ok_or_else(|| CompileError(format!("the contract has no {line}")))
        };
        host_functions().into_iter().map(function).collect()
    }

    fn function(&self, line: &'static str) -> Option<HostFunction> {
        let (interface, name) = line.split_once(' ')?;
        if name.starts_with("[resource-drop]") {
            return Some(HostFunction { interface, name, parameters: 1, has_result: false });
        }
        let imports = &self.resolve.worlds[self.world].imports;
        let found = imports.iter().find_map(|(key, item)| match item {
            WorldItem::Interface { id, .. } if self.resolve.name_world_key(key) == interface => {
                self.resolve.interfaces[*id].functions.get(name)
            }
            _ => None,
        })?;
        let signature = self.resolve.wasm_signature(AbiVariant::GuestImport, found);
        let is_number =
            |kind: &WasmType| matches!(kind, WasmType::I32 | WasmType::Pointer | WasmType::Length);
        let types = signature.params.iter().chain(&signature.results);
        types.into_iter().all(is_number).then_some(HostFunction {
            interface,
            name,
            parameters: signature.params.len(),
            has_result: !signature.results.is_empty(),
        })
    }
}
