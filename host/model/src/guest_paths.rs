//! The paths under which a guest sees its folders.

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
/// The folder of models, by name: `/models/digits`.
pub const GUEST_MODELS: &str = "/models";
/// The folder of side inputs, by name: `/side_inputs/weights`. The job file may give a side input another
/// path.
pub const GUEST_SIDE_INPUTS: &str = "/side_inputs";
