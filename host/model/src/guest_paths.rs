//! The guest's paths of its folders.

/// The output folder.
pub const GUEST_OUTPUT: &str = "/output";
/// The log folder.
pub const GUEST_LOGS: &str = "/logs";
/// The folder for temporary files of Python scripts.
pub const GUEST_TEMPORARY: &str = "/tmp";
/// The source folder.
pub const GUEST_SOURCE: &str = "/source";
/// The folder of inputs, by name: `/inputs/images`, or `/inputs/images/0` and so on for an input of several
/// paths.
pub const GUEST_INPUTS: &str = "/inputs";
/// The folder of models, by name.
pub const GUEST_MODELS: &str = "/models";
/// The folder of side inputs, by name, unless they have a mount path of their own.
pub const GUEST_SIDE_INPUTS: &str = "/side_inputs";
