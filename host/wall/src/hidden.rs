//! Layers that tests hide.

use super::error::{LayerError, WallLayer};

/// The environment variable with which tests hide a layer: it holds the layer's name. Only builds with debug
/// assertions read it.
pub const MISSING_LAYER: &str = "SANDMILL_MISSING_LAYER";

/// Fails if a test hides this layer.
pub(super) fn unless_hidden(layer: WallLayer) -> Result<(), LayerError> {
    let is_this_layer = |hidden: String| hidden == layer.name();
    if cfg!(debug_assertions) && std::env::var(MISSING_LAYER).is_ok_and(is_this_layer) {
        return Err(LayerError::Hidden { variable: MISSING_LAYER });
    }
    Ok(())
}
