//! Layers that tests want missing.

use super::error::{LayerError, WallLayer};

/// In builds with debug assertions, the name of a layer in this variable of the environment counts as
/// missing, for tests. Other builds do not look at it.
pub const MISSING_LAYER: &str = "SANDMILL_MISSING_LAYER";

/// Fails if a test wants it missing.
pub(super) fn unless_hidden(layer: WallLayer) -> Result<(), LayerError> {
    let is_it = |hidden: String| hidden == layer.name();
    if cfg!(debug_assertions) && std::env::var(MISSING_LAYER).is_ok_and(is_it) {
        return Err(LayerError::Hidden { variable: MISSING_LAYER });
    }
    Ok(())
}
