//! Where a guest finds its folders.

/// The output folder.
pub const GUEST_OUTPUT: &str = "/output";
/// The log folder.
pub const GUEST_LOGS: &str = "/logs";
/// The folder for temporary files of Python scripts.
pub const GUEST_TEMPORARY: &str = "/tmp";
/// The source folder.
pub const GUEST_SOURCE: &str = "/source";
/// Inputs lie below this, by name: `/inputs/images`, or `/inputs/images/0` and so on for an input
/// of several paths.
pub const GUEST_INPUTS: &str = "/inputs";
/// Models lie below this, by name.
pub const GUEST_MODELS: &str = "/models";
/// Side inputs lie below this, by name, unless their mount path is chosen.
pub const GUEST_SIDE_INPUTS: &str = "/side_inputs";
