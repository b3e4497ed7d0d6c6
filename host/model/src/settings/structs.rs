//! The structs of checked settings, with their defaults. They are generated from the tables of keys.

use super::Setting;
use crate::{
    AllowedPercent, ByteSize, ErrorThreshold, LoggingLevel, OnConflict, OsSandbox, OutputAction,
    Profiler, Sample, job_keys, limit_keys,
};
use serde::{Deserialize, Serialize};
use std::time::Duration;

macro_rules! structs {
    (
        $(#[$of_job:meta])* job $Job:ident;
        $(#[$of_worker:meta])* worker $Worker:ident;
        given $Given:ident below $below:literal;
        $(
            $(job $job:ident: $job_type:ty =>)?
            $(worker $worker:ident: $worker_type:ty =>)?
            $(composed $composed:ident =>)?
            {
                kind: $kind:expr,
                $(values: $values:literal,)?
                $(default: $default:literal,)?
                $(unless_given: $unless_given:literal,)?
                expected: $expected:expr,
                example: $example:literal,
                description: $description:literal,
                $($more:tt)*
            }
        )*
    ) => {
        $(#[$of_job])*
        pub struct $Job {
            $($(#[doc = $description] pub $job: $job_type,)?)*
        }

        $(#[$of_worker])*
        pub struct $Worker {
            $($(#[doc = $description] pub $worker: $worker_type,)?)*
        }

        impl $Job {
            /// The names and defaults of all keys of the table.
            const DEFAULTS: &[(&str, &[&str])] = &[
                $((stringify!($($job)? $($worker)? $($composed)?), &[$($default)?]),)*
            ];
        }

        impl Default for $Job {
            fn default() -> Self {
                Self { $($($job: default($Job::DEFAULTS, stringify!($job)),)?)* }
            }
        }

        impl Default for $Worker {
            fn default() -> Self {
                Self { $($($worker: default($Job::DEFAULTS, stringify!($worker)),)?)* }
            }
        }
    };
}

job_keys!(structs);
limit_keys!(structs);

/// The default of a key, from its table.
fn default<T: Setting>(defaults: &[(&str, &[&str])], key: &str) -> T {
    let given = defaults.iter().find(|(name, _)| *name == key).and_then(|(_, texts)| texts.first());
    let value = match given {
        Some(text) => T::read(text),
        None => T::unset(),
    };
    value.expect("a test checks that the default of every key can be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every default can be read. Some defaults are compared with their expected values.
    #[test]
    fn defaults_come_from_the_tables() {
        let settings = JobSettings::default();
        let limits = JobLimits::default();
        assert_eq!((settings.run_max_try, settings.tenant.as_str()), (3, "default"));
        assert_eq!(settings.run_invocation_timeout, Duration::from_secs(60));
        assert_eq!((limits.reports, limits.job_time), (ByteSize(10 << 30), None));
        assert_eq!(WorkerSettings::default().os_sandbox, OsSandbox::Required);
        assert_eq!(Limits::default().memory, ByteSize(1 << 30));
    }
}
