//! Reads the values of settings from the texts in a job file.

use crate::{
    AllowedPercent, ByteSize, ErrorThreshold, LoggingLevel, OnConflict, OsSandbox, OutputAction,
    Profiler, Sample,
};
use std::time::Duration;

/// The type of a setting's value.
pub trait Setting: Sized {
    /// Reads a value from its text in a job file. `None` if the text is not valid.
    fn read(text: &str) -> Option<Self>;

    /// The value if neither the job file nor the table of keys has a value. `None` if the table must have a
    /// default.
    fn unset() -> Option<Self> {
        None
    }

    /// A message about an invalid text. `None` means the usual message, which names the expected
    /// values.
    fn complaint(_text: &str) -> Option<String> {
        None
    }
}

impl Setting for String {
    fn read(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }

    fn unset() -> Option<Self> {
        Some(Self::new())
    }
}

impl Setting for bool {
    fn read(text: &str) -> Option<Self> {
        choice(text, &[("true", true), ("false", false)])
    }
}

impl Setting for u32 {
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl Setting for u64 {
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl Setting for i64 {
    fn read(text: &str) -> Option<Self> {
        text.trim().parse().ok()
    }
}

impl Setting for ByteSize {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

/// A number of seconds.
impl Setting for Duration {
    fn read(text: &str) -> Option<Self> {
        Self::try_from_secs_f64(text.trim().parse().ok()?).ok()
    }
}

/// A number of seconds. 0 means `None`.
impl Setting for Option<Duration> {
    fn read(text: &str) -> Option<Self> {
        Duration::read(text).map(|time| Some(time).filter(|time| !time.is_zero()))
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl Setting for Option<u64> {
    fn read(text: &str) -> Option<Self> {
        u64::read(text).map(Some)
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl Setting for Option<Profiler> {
    fn read(text: &str) -> Option<Self> {
        choice(text, &Profiler::ALL.map(|profiler| (profiler.name(), profiler))).map(Some)
    }

    fn unset() -> Option<Self> {
        Some(None)
    }
}

impl Setting for ErrorThreshold {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Setting for AllowedPercent {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }

    fn complaint(text: &str) -> Option<String> {
        text.parse::<Self>().err().map(|error| error.to_string())
    }
}

impl Setting for Sample {
    fn read(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl Setting for OutputAction {
    fn read(text: &str) -> Option<Self> {
        choice(text, &Self::ALL.map(|action| (action.name(), action)))
    }
}

impl Setting for OnConflict {
    fn read(text: &str) -> Option<Self> {
        choice(text, &Self::ALL.map(|action| (action.name(), action)))
    }
}

impl Setting for LoggingLevel {
    fn read(text: &str) -> Option<Self> {
        choice(text, &Self::ALL.map(|level| (level.name(), level)))
    }
}

impl Setting for OsSandbox {
    fn read(text: &str) -> Option<Self> {
        choice(text, &Self::ALL.map(|mode| (mode.name(), mode)))
    }
}

/// Reads one of these words, in any case.
fn choice<T: Copy>(text: &str, choices: &[(&str, T)]) -> Option<T> {
    choices.iter().find(|(name, _)| name.eq_ignore_ascii_case(text.trim())).map(|(_, value)| *value)
}
