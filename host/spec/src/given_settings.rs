//! Reads a file's values for the settings that `sandmill-model` lists. Computes from them the values in
//! force, the settings that affect the output's rows, and the settings that the operator's policy may cap.
//! `raw` reads settings that are composed of several keys; `check` and the other modules check them.

use super::error::SettingOrigin;
use super::keys::{DecidesRows, LIMIT_ROWS};
use super::measured::{Amount, MeasuredSetting};
use super::scope::{Located, UnreadNames};
use crate::model::{
    AllowedPercent, ByteSize, ErrorThreshold, JobLimits, JobSettings, Limits, LoggingLevel,
    OnConflict, OsSandbox, OutputAction, Profiler, Sample, Setting, WorkerSettings, job_keys,
    limit_keys,
};
use std::time::Duration;

// Reads a setting if its entry in the list of keys has a ceiling (`[]` means that it has none). Skips a
// setting that is composed of several keys, because the struct of given settings has no field for it.
macro_rules! read_ceiling {
    ([$most:tt] $scope:ident, $given:ident $field:ident) => {
        $given.$field = $scope.setting(stringify!($field));
    };
    ([$($most:tt)?] $scope:ident, $($given:ident $field:ident)?) => {};
}

macro_rules! given_amount {
    ([$most:tt] $amounts:ident, $key:expr, $given:ident $field:ident) => {
        if let Some(setting) = &$given.$field {
            $amounts.extend(
                setting.value.amount().map(|amount| ($key, amount, setting.origin.clone())),
            );
        }
    };
    ([$($most:tt)?] $amounts:ident, $key:expr, $($given:ident $field:ident)?) => {};
}

macro_rules! capped {
    ([$most:tt] $capped:ident, $key:expr, $parts:ident $part:tt $field:ident) => {
        $capped.extend([($key, &mut $parts.$part.$field as &mut dyn MeasuredSetting)]);
    };
    ([$($most:tt)?] $capped:ident, $key:expr, $($parts:ident $part:tt $field:ident)?) => {};
}

macro_rules! given {
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
                $(docs: $docs:literal,)?
                $(prs: $prs:expr,)?
                rows: $rows:expr,
                ceiling: $(most $most:tt)? $(no $no:literal)?,
                $(enforced: $file:literal, by $test:literal,)?
            }
        )*
    ) => {
        /// A file's values for these settings.
        #[derive(Clone, Debug, Default, PartialEq)]
        pub(crate) struct $Given {
            $(
                $(pub(crate) $job: Option<Located<$job_type>>,)?
                $(pub(crate) $worker: Option<Located<$worker_type>>,)?
            )*
        }

        impl $Given {
            /// Takes the settings out of a map.
            pub(crate) fn read(scope: &mut UnreadNames<'_>) -> Self {
                Self {
                    $(
                        $($job: scope.setting(stringify!($job)),)?
                        $($worker: scope.setting(stringify!($worker)),)?
                    )*
                }
            }

            /// Takes the settings that have ceilings out of a policy's map.
            pub(crate) fn read_ceilings(scope: &mut UnreadNames<'_>) -> Self {
                let mut given = Self::default();
                $(read_ceiling!([$($most)?] scope, $(given $job)? $(given $worker)?);)*
                given
            }

            /// The values in force: the file's value, or else the value of `defaults`.
            pub(crate) fn in_force(&self, defaults: &Self) -> ($Job, $Worker) {
                (
                    $Job { $($($job: value(&self.$job, &defaults.$job),)?)* },
                    $Worker { $($($worker: value(&self.$worker, &defaults.$worker),)?)* },
                )
            }

            /// The given settings that have ceilings: the key, the amount, and where it was written.
            pub(crate) fn amounts(&self) -> Vec<(&'static str, Amount, SettingOrigin)> {
                let given = self;
                let mut amounts = Vec::new();
                $(given_amount!(
                    [$($most)?] amounts, concat!($below, stringify!($($job)? $($worker)?)),
                    $(given $job)? $(given $worker)?
                );)*
                amounts
            }

            /// All settings that have ceilings, by key.
            pub(crate) fn capped<'s>(
                parts: (&'s mut $Job, &'s mut $Worker),
            ) -> Vec<(&'static str, &'s mut dyn MeasuredSetting)> {
                let mut capped: Vec<(&'static str, &'s mut dyn MeasuredSetting)> = Vec::new();
                $(capped!(
                    [$($most)?] capped, concat!($below, stringify!($($job)? $($worker)?)),
                    $(parts 0 $job)? $(parts 1 $worker)?
                );)*
                capped
            }

            /// The settings that affect rows: their keys, and their values as JSON.
            pub(crate) fn deciding(job: &$Job, worker: &$Worker) -> Vec<(&'static str, String)> {
                let default_job = $Job::default();
                let default_worker = $Worker::default();
                let mut deciding = Vec::new();
                $(
                    $(if decides($rows, job.$job != default_job.$job) {
                        let value = serde_json::to_string(&job.$job);
                        deciding.push((concat!($below, stringify!($job)), value));
                    })?
                    $(if decides($rows, worker.$worker != default_worker.$worker) {
                        let value = serde_json::to_string(&worker.$worker);
                        deciding.push((concat!($below, stringify!($worker)), value));
                    })?
                )*
                // Plain data always serialises. If it did not, values would become empty texts and would
                // compare as equal.
                let with_text = |(key, value): (_, Result<_, _>)| (key, value.unwrap_or_default());
                deciding.into_iter().map(with_text).collect()
            }
        }
    };
}

job_keys!(given);
limit_keys!(given);

/// Takes the group `limits` out of a map, and passes it to `read`.
pub(crate) fn limits(
    scope: &mut UnreadNames<'_>,
    read: fn(&mut UnreadNames<'_>) -> GivenLimits,
) -> GivenLimits {
    let Some(mut group) = scope.group("limits") else { return GivenLimits::default() };
    let given = read(&mut group);
    group.report_unread();
    given
}

fn value<T: Setting + Clone>(given: &Option<Located<T>>, default: &Option<Located<T>>) -> T {
    let setting = given.as_ref().or(default.as_ref());
    let value = setting.map(|setting| setting.value.clone()).or_else(T::unset);
    value.expect("a test checks that the default of every key can be read")
}

fn decides(rows: DecidesRows, is_not_default: bool) -> bool {
    match rows {
        DecidesRows::Decide => true,
        DecidesRows::DecideUnlessDefault => is_not_default,
        DecidesRows::Not(_) => false,
    }
}
