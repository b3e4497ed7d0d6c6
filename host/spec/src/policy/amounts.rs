//! The settings of a job that have ceilings.

use crate::JobSpec;
use crate::error::SettingOrigin;
use crate::given_settings::{GivenLimits, GivenSettings};
use crate::keys;
use crate::measured::{Amount, MeasuredSetting};
use crate::model::{ByteSize, InferenceSettings};
use crate::raw::RawJob;
use crate::scope::Located;
use std::num::NonZero;
use std::thread;

/// The ceilings for settings that the policy does not mention. They limit how much a job of an untrusted user
/// can make the leader write.
pub(super) const DEFAULT_CEILINGS: [(&str, Amount); 3] = [
    ("limits.mini_batches", Amount::Count(10_000_000)),
    ("limits.reports", Amount::Size(ByteSize(2 << 30))),
    ("limits.failures", Amount::Count(1000)),
];

/// A reference to an amount in a job.
pub(super) enum AmountSlot<'a> {
    Setting(&'a mut dyn MeasuredSetting),
    /// The number of threads for inference, and the default that applies if the number is `None`.
    Threads(&'a mut Option<u32>, u32),
}

impl AmountSlot<'_> {
    /// `None` if the setting has no bound.
    pub(super) fn get(&self) -> Option<Amount> {
        match self {
            Self::Setting(setting) => setting.amount(),
            Self::Threads(threads, share) => threads.unwrap_or(*share).amount(),
        }
    }

    pub(super) fn set(&mut self, amount: Amount) {
        match self {
            Self::Setting(setting) => setting.set(amount),
            Self::Threads(threads, _) => threads.set(amount),
        }
    }
}

/// All settings of a job that have ceilings, by key. The settings of inference are included only if the job
/// uses models.
pub(super) fn of_job(spec: &mut JobSpec) -> Vec<(&'static str, AmountSlot<'_>)> {
    // The pattern names every field. So if a setting is added to inference, this does not compile until the
    // setting is listed here, with a ceiling or with the reason why it needs none.
    let InferenceSettings {
        allow_guest_models,
        threads,
        gpu_memory,
        // These come from the machine, never from a job.
        onnxruntime: _,
        cuda: _,
    } = &mut spec.inference;
    let uses_models = !spec.models.is_empty() || *allow_guest_models;
    let has_gpus = spec.gpus > 0;
    let cores = thread::available_parallelism().map_or(1, NonZero::get);
    let share = u32::try_from(cores).unwrap_or(u32::MAX) / spec.process_count.max(1);
    let mut settings = GivenSettings::capped((&mut spec.settings, &mut spec.worker));
    settings.extend([
        ("process_count_per_node", &mut spec.process_count as &mut dyn MeasuredSetting),
        ("gpus", &mut spec.gpus),
        ("progress_update_timeout", &mut spec.progress_update_timeout),
    ]);
    settings.sort_by_key(|(key, _)| keys::JOB.iter().position(|known| known.name == *key));
    let limits = GivenLimits::capped((&mut spec.job_limits, &mut spec.limits));
    let all_settings = limits.into_iter().chain(settings);
    let mut slots: Vec<_> =
        all_settings.map(|(key, setting)| (key, AmountSlot::Setting(setting))).collect();
    if uses_models {
        slots.push(("inference.threads", AmountSlot::Threads(threads, share)));
    }
    if uses_models && has_gpus {
        slots.push(("inference.gpu_memory", AmountSlot::Setting(gpu_memory)));
    }
    slots
}

/// The values that a file gives for these settings: the key, the amount and where it was written. A value
/// without a line in the file is a default of Azure, not a request of the job.
pub(super) fn given(raw: &RawJob) -> Vec<(&'static str, Amount, SettingOrigin)> {
    fn amount_of<T: MeasuredSetting>(
        key: &'static str,
        setting: &Option<Located<T>>,
    ) -> Option<(&'static str, Amount, SettingOrigin)> {
        let setting = setting.as_ref()?;
        Some((key, setting.value.amount()?, setting.origin.clone()))
    }
    let composed = [
        amount_of("inference.threads", &raw.inference.threads),
        amount_of("inference.gpu_memory", &raw.inference.gpu_memory),
        amount_of("process_count_per_node", &raw.process_count_per_node),
        amount_of("gpus", &raw.gpus),
        amount_of("progress_update_timeout", &raw.progress_update_timeout),
    ];
    let mut given = raw.limits.amounts();
    given.extend(raw.settings.amounts());
    given.extend(composed.into_iter().flatten());
    given.retain(|(.., origin)| *origin != SettingOrigin::File);
    given
}
