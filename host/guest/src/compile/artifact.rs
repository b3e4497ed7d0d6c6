//! Recognises the kind of an entry script's file, and turns a core module into a component.

use super::CompileError;
use crate::model::hex;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wasmparser::{Parser, Payload};
use wit_component::ComponentEncoder;

/// The kinds of WebAssembly files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Artifact {
    /// A component, which Sandmill can run.
    Component,
    /// A core module. It can be made into a component if it has WIT metadata.
    Module,
}

/// The bytes after `\0asm`.
const MODULE_VERSION: [u8; 4] = [1, 0, 0, 0];
const COMPONENT_VERSION: [u8; 4] = [0x0d, 0, 1, 0];

/// Recognises a file by its first bytes.
///
/// # Errors
/// If the file is not WebAssembly, or has an unknown version. The error says what the file looks like.
pub fn identify(bytes: &[u8]) -> Result<Artifact, CompileError> {
    if let Some(version) = bytes.strip_prefix(b"\0asm") {
        return match version.get(..4) {
            Some(version) if version == MODULE_VERSION => Ok(Artifact::Module),
            Some(version) if version == COMPONENT_VERSION => Ok(Artifact::Component),
            _ => Err(CompileError::new(format!(
                "the file is WebAssembly of an unknown version (found the bytes {}; supported are core \
                 modules of version 1 and components of version 13): build it with a current \
                 toolchain",
                hex_bytes(&bytes[4..bytes.len().min(8)])
            ))),
        };
    }
    Err(CompileError::new(format!(
        "the file is not a WebAssembly component: {}. {}",
        looks_like(bytes),
        advice(bytes)
    )))
}

fn looks_like(bytes: &[u8]) -> String {
    let text = std::str::from_utf8(bytes.get(..bytes.len().min(4096)).unwrap_or(bytes)).ok();
    let starts_with = |prefix: &str| text.is_some_and(|text| text.trim_start().starts_with(prefix));
    let start = || hex_bytes(&bytes[..bytes.len().min(4)]);
    match bytes {
        [] => "it is empty".into(),
        [0x7f, b'E', b'L', b'F', ..] => "it is a native program or library (ELF)".into(),
        [b'M', b'Z', ..] => "it is a Windows program (MZ)".into(),
        [b'P', b'K', 3, 4, ..] => "it is a zip archive".into(),
        [0x1f, 0x8b, ..] => "it is gzip-compressed".into(),
        _ if starts_with("(component") || starts_with("(module") => {
            "it is WebAssembly in text form (WAT)".into()
        }
        _ if looks_like_python(text) => "it is Python source".into(),
        _ if starts_with("#!") => "it is a script for another interpreter".into(),
        _ if text.is_some_and(|text| text.contains("fn ") && text.contains('{')) => {
            "it is Rust source".into()
        }
        _ if text.is_some() => "it is text".into(),
        _ => format!("it begins with the bytes {}, not with 00 61 73 6d", start()),
    }
}

fn looks_like_python(text: Option<&str>) -> bool {
    let Some(text) = text else { return false };
    text.starts_with("#!") && text.lines().next().is_some_and(|line| line.contains("python"))
        || text.lines().any(|line| {
            line.starts_with("def ") && line.trim_end().ends_with(':')
                || line.starts_with("import ") && !line.trim_end().ends_with(';')
                || line.starts_with("from ") && line.contains(" import ")
        })
}

fn advice(bytes: &[u8]) -> &'static str {
    let text = std::str::from_utf8(&bytes[..bytes.len().min(4096)]).ok();
    if bytes.is_empty() {
        "Did the build that should write it fail?"
    } else if looks_like_python(text) {
        "Rename it so that its name ends in .py"
    } else if text.is_some_and(|text| text.trim_start().starts_with('(')) {
        "Turn it into binary form with `wasm-tools parse`"
    } else {
        "Name a component, or the folder of a guest crate to build"
    }
}

fn hex_bytes(bytes: &[u8]) -> String {
    if bytes.is_empty() {
        return "none".into();
    }
    bytes.iter().map(|byte| hex([*byte])).collect::<Vec<_>>().join(" ")
}

/// Turns a core module into a component. The module must be a `wasm32-wasip1` reactor with WIT metadata. A
/// component is returned unchanged.
///
/// # Errors
/// If the bytes are not a component or core module, have no metadata, or are inconsistent.
pub(super) fn componentize(bytes: Vec<u8>) -> Result<Vec<u8>, CompileError> {
    if identify(&bytes)? == Artifact::Component {
        return Ok(bytes);
    }
    if !has_metadata(&bytes)? {
        return Err(CompileError::new(
            "the file is a core module without WIT metadata, so nothing says which functions it \
             exports to Sandmill: build it with sandmill-guest or wit-bindgen, or embed the \
             metadata with `wasm-tools component embed wit/ --world entry-script`",
        ));
    }
    encode(&bytes, None).map_err(|error| {
        CompileError::new(format!("the core module cannot be made into a component: {error:#}"))
    })
}

/// Turns a core module into a component. `glue` is a name and the bytes of a second module, which
/// connects the core module to the contract. The core module imports from the second module by this
/// name.
pub(super) fn encode(module: &[u8], glue: Option<(&str, &[u8])>) -> anyhow::Result<Vec<u8>> {
    // The adapter (WASI 0.1 on WASI 0.2) gets its memory by growing the module's memory. It cannot call the
    // module's allocator, which in some languages (Go) cannot run before `_initialize`.
    let mut encoder =
        ComponentEncoder::default().validate(true).realloc_via_memory_grow(true).module(module)?;
    if let Some((name, glue)) = glue {
        encoder = encoder.adapter(name, glue)?;
    }
    encoder
        .adapter(WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER)?
        .encode()
}

fn has_metadata(module: &[u8]) -> Result<bool, CompileError> {
    for payload in Parser::new(0).parse_all(module) {
        let payload = payload.map_err(|error| {
            CompileError::new(format!("the file is damaged WebAssembly: {error}"))
        })?;
        if let Payload::CustomSection(section) = payload
            && section.name().starts_with("component-type")
        {
            return Ok(true);
        }
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compile::testing;

    #[test]
    fn errors_describe_what_a_wrong_file_looks_like() {
        let text = |bytes: &[u8]| identify(bytes).expect_err("wrong file").to_string();
        insta::assert_snapshot!(text(b""), @"the file is not a WebAssembly component: it is empty. Did the build that should write it fail?");
        insta::assert_snapshot!(text(b"\x7fELF\x02\x01"), @"the file is not a WebAssembly component: it is a native program or library (ELF). Name a component, or the folder of a guest crate to build");
        insta::assert_snapshot!(text(b"import numpy\n\ndef run(batch):\n    return 1\n"), @"the file is not a WebAssembly component: it is Python source. Rename it so that its name ends in .py");
        insta::assert_snapshot!(text(b"\n(component)"), @"the file is not a WebAssembly component: it is WebAssembly in text form (WAT). Turn it into binary form with `wasm-tools parse`");
        insta::assert_snapshot!(text(&[0xde, 0xad, 0xbe, 0xef, 0]), @"the file is not a WebAssembly component: it begins with the bytes de ad be ef, not with 00 61 73 6d. Name a component, or the folder of a guest crate to build");
        insta::assert_snapshot!(text(b"\0asm\x02\0\0\0"), @"the file is WebAssembly of an unknown version (found the bytes 02 00 00 00; supported are core modules of version 1 and components of version 13): build it with a current toolchain");
        insta::assert_snapshot!(text(b"\0asm"), @"the file is WebAssembly of an unknown version (found the bytes none; supported are core modules of version 1 and components of version 13): build it with a current toolchain");
    }

    #[test]
    fn a_module_with_metadata_becomes_a_component() {
        let module = testing::module("run-only", testing::RUN_EMPTY);
        assert_eq!(identify(&module), Ok(Artifact::Module));
        let component = componentize(module).expect("has metadata");
        assert_eq!(identify(&component), Ok(Artifact::Component));
        assert_eq!(componentize(component.clone()), Ok(component));
    }

    #[test]
    fn a_module_without_metadata_is_refused() {
        let module = wat::parse_str("(module)").expect("valid");
        let error = componentize(module).expect_err("no metadata").to_string();
        assert!(error.contains("core module without WIT metadata"), "{error}");
        let mut damaged = testing::module("run-only", testing::RUN_EMPTY);
        damaged.truncate(damaged.len() / 2);
        componentize(damaged).expect_err("damaged");
    }
}
