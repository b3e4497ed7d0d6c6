//! Combines an interpreter's module and its glue into a component.

use super::super::CompileError;
use super::super::artifact::encode;
use super::glue::{glue, preparing_glue};
use super::snapshot::with_reset;
use super::world::ParsedWorld;
use wit_component::{StringEncoding, embed_component_metadata};

/// The name of the module from which the interpreter imports `call`.
const HOST_MODULE: &str = "host";

/// Makes the component of a prepared interpreter.
///
/// # Errors
/// If the module lacks an export that an interpreter has.
pub(in super::super) fn assemble(module: &[u8]) -> Result<Vec<u8>, CompileError> {
    let world = ParsedWorld::parse()?;
    let text = glue(&world.functions()?);
    encode_with_glue(module, &world, &text)
}

/// Makes the component that prepares an interpreter: `init` starts the interpreter, and `run` runs `text` and
/// returns the interpreter's memory as a table.
///
/// # Errors
/// As [`assemble`].
pub(in super::super) fn preparing(module: &[u8], text: &str) -> Result<Vec<u8>, CompileError> {
    let world = ParsedWorld::parse()?;
    let glue = preparing_glue(&world.functions()?, text);
    encode_with_glue(&with_reset(module)?, &world, &glue)
}

fn encode_with_glue(
    module: &[u8],
    world: &ParsedWorld,
    glue: &str,
) -> Result<Vec<u8>, CompileError> {
    let failed = |error: &dyn std::fmt::Display| {
        CompileError(format!("the interpreter cannot be made into a component: {error:#}"))
    };
    let mut glue = wat::parse_str(glue).map_err(|error| failed(&error))?;
    let encoded =
        embed_component_metadata(&mut glue, &world.resolve, world.world, StringEncoding::UTF8)
            .and_then(|()| encode(module, Some((HOST_MODULE, &glue))));
    encoded.map_err(|error| failed(&error))
}
