//! The component of an interpreter's module and its glue.

use super::super::CompileError;
use super::glue::{glue, preparing_glue};
use super::snapshot::with_reset;
use super::world::World;
use wasi_preview1_component_adapter_provider::{
    WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME, WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
};
use wit_component::{ComponentEncoder, StringEncoding, embed_component_metadata};

/// The module that an interpreter's import is of.
const DOOR: &str = "host";

/// The component of a prepared interpreter.
///
/// # Errors
/// If the module does not have what an interpreter has.
pub(in super::super) fn assemble(module: &[u8]) -> Result<Vec<u8>, CompileError> {
    let world = World::parse()?;
    let text = glue(&world.functions()?);
    encode(module, &world, &text)
}

/// The component that prepares an interpreter: `init` starts it, `run` runs `text` and returns its memory as a table.
///
/// # Errors
/// As [`assemble`].
pub(in super::super) fn preparing(module: &[u8], text: &str) -> Result<Vec<u8>, CompileError> {
    let world = World::parse()?;
    let glue = preparing_glue(&world.functions()?, text);
    encode(&with_reset(module)?, &world, &glue)
}

fn encode(module: &[u8], world: &World, glue: &str) -> Result<Vec<u8>, CompileError> {
    let failed = |error: &dyn std::fmt::Display| {
        CompileError(format!("no component can be made of the interpreter: {error:#}"))
    };
    let mut glue = wat::parse_str(glue).map_err(|error| failed(&error))?;
    let encoded =
        embed_component_metadata(&mut glue, &world.resolve, world.world, StringEncoding::UTF8)
            .and_then(|()| {
                ComponentEncoder::default()
                    .validate(true)
                    .module(module)?
                    .adapter(DOOR, &glue)?
                    .adapter(
                        WASI_SNAPSHOT_PREVIEW1_ADAPTER_NAME,
                        WASI_SNAPSHOT_PREVIEW1_REACTOR_ADAPTER,
                    )?
                    .encode()
            });
    encoded.map_err(|error| failed(&error))
}
