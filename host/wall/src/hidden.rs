//! Layers that tests hide.

use super::error::{LayerError, WallLayer};

/// The environment variable with the name of a layer to hide, for tests. Only builds with debug assertions
/// read it.
pub const MISSING_LAYER: &str = "SANDMILL_MISSING_LAYER";

/// Fails if a test hides this layer.
pub(super) fn unless_hidden(layer: WallLayer) -> Result<(), LayerError> {
    let is_it = |hidden: String| hidden == layer.name();
    if cfg!(debug_assertions) && std::env::var(MISSING_LAYER).is_ok_and(is_it) {
        return Err(LayerError::Hidden { variable: MISSING_LAYER });
    }
    Ok(())
}
