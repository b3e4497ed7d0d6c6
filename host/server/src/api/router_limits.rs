//! The limits of requests.

/// The most bytes of a body of JSON. A job file in it may have a megabyte, and escapes make it longer.
pub(crate) const MOST_JSON: usize = 4 << 20;
