//! The GPUs of a job. While the job runs, no other job of this machine gets them (rule G1 in
//! `docs/parallel-run-step.md`).

use super::backends::probe;
use super::kernels;
use super::options::NodeOptions;
use crate::compile::Cache;
use crate::gpu::{Inventory, MemoryWatch, Nvidia};
use crate::machine_slots::{Devices, LeasedDevices, SlotsError};
use crate::model::{GpuLease, InferenceSettings};
use crate::spec::JobSpec;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The GPUs that the job has taken. Other jobs can take them after this is dropped and the workers are gone.
#[derive(Debug, Default)]
pub(super) struct LeasedGpus {
    leases: Vec<GpuLease>,
    /// The kinds of these GPUs, each once.
    kinds: BTreeSet<String>,
    /// Holds the locks.
    _taken: LeasedDevices,
    /// `None` if no driver reports GPU memory.
    memory: Option<MemoryWatch>,
}

impl LeasedGpus {
    /// Leases as many GPUs as the job has workers for. If it gets fewer, a notice says why, and which
    /// processes have the other GPUs.
    pub(super) fn acquire(
        spec: &JobSpec,
        options: &NodeOptions,
    ) -> Result<(Self, Option<String>), SlotsError> {
        if spec.gpus == 0 {
            return Ok((Self::default(), None));
        }
        let nvidia = Nvidia::open();
        let inventory = Inventory::from_driver(&nvidia);
        let (candidates, names) = candidates(spec.gpus, &inventory);
        let most = spec.gpus.min(spec.process_count) as usize;
        let taken = Devices::open(&options.policy.machine())?.lease(&names, most)?;
        let leases: Vec<GpuLease> = taken
            .held
            .iter()
            .filter_map(|held| {
                let lease = candidates.get(held.position)?.clone();
                Some(GpuLease { lock: Some(held.file.clone()), ..lease })
            })
            .collect();
        let notice = (leases.len() < most).then(|| {
            let busy = taken.busy.iter();
            let busy =
                busy.filter_map(|(position, by)| Some((candidates.get(*position)?.index, *by)));
            let busy: Vec<(u32, Option<u32>)> = busy.collect();
            lacking_notice(leases.len(), most, &busy, inventory.missing.as_deref())
        });
        let is_leased = |index: u32| leases.iter().any(|lease| lease.index == index);
        let leased = inventory.gpus.iter().filter(|gpu| is_leased(gpu.index));
        let mut kinds: BTreeSet<String> = leased.map(|gpu| gpu.name.clone()).collect();
        if kinds.is_empty() && !leases.is_empty() {
            kinds.insert("GPU".to_owned());
        }
        let memory = nvidia.ok().filter(|_| inventory.known && !leases.is_empty());
        let memory = memory.map(|nvidia| MemoryWatch::new(nvidia, &leases));
        Ok((Self { leases, kinds, _taken: taken, memory }, notice))
    }

    /// Compiles tract's kernels for the GPUs if tract may run a model on a GPU. Returns a notice if that
    /// fails. `inference`: the job's settings, with the libraries that were found.
    pub(super) fn make_ready(
        &mut self,
        spec: &JobSpec,
        inference: &InferenceSettings,
        options: &NodeOptions,
        say: &mut dyn FnMut(&str),
    ) -> Option<String> {
        let onnxruntime_has_gpu = || {
            let library = inference.onnxruntime.as_deref();
            library.is_some_and(|path| probe(spec, options).onnxruntime_on_gpu(path).is_ok())
        };
        // Without a driver there is nothing to compile for.
        if self.memory.is_none() || !kernels::are_needed(spec, onnxruntime_has_gpu) {
            return None;
        }
        let cache = options.cache_dir.clone().or_else(Cache::default_folder)?;
        say("compiling GPU kernels for models, which takes minutes the first time");
        let libraries = &inference.cuda;
        let cancel = &options.cancel;
        match kernels::compile(&options.program, &cache, &self.leases, libraries, cancel) {
            Ok(folder) => {
                self.leases.iter_mut().for_each(|lease| lease.kernels = Some(folder.clone()));
                None
            }
            Err(why) => Some(format!("tract cannot compute on the GPU: {why}")),
        }
    }

    /// Whether the job has no GPUs.
    pub(super) fn is_empty(&self) -> bool {
        self.leases.is_empty()
    }

    /// The kinds of devices that compute for the job.
    pub(super) fn kinds(&self) -> Vec<String> {
        match self.kinds.is_empty() {
            true => vec!["CPU".to_owned()],
            false => self.kinds.iter().cloned().collect(),
        }
    }

    pub(super) fn indices(&self) -> Vec<u32> {
        self.leases.iter().map(|lease| lease.index).collect()
    }

    /// The lease of the GPU with this index. `None` if the job has not taken it.
    pub(super) fn lease(&self, index: u32) -> Option<GpuLease> {
        self.leases.iter().find(|lease| lease.index == index).cloned()
    }

    /// The watch on the memory of the GPUs. `None` if no driver reports GPU memory.
    pub(super) fn memory(&self) -> Option<MemoryWatch> {
        self.memory.clone()
    }
}

/// The GPUs that a job may have, with names that are the same for all jobs of the machine. If no driver
/// reports GPUs, we assume as many as the job asks for.
fn candidates(gpus: u32, inventory: &Inventory) -> (Vec<GpuLease>, Vec<String>) {
    if inventory.known {
        inventory.gpus.iter().map(|gpu| (gpu.lease(), gpu.uuid.clone())).unzip()
    } else {
        (0..gpus).map(|index| (GpuLease::plain(index), index.to_string())).unzip()
    }
}

/// The notice for a job with fewer GPUs than it could use. `busy` are the GPUs that other jobs have, each
/// with the process that took it.
fn lacking_notice(
    has: usize,
    wanted: usize,
    busy: &[(u32, Option<u32>)],
    missing: Option<&str>,
) -> String {
    let mut text = match has {
        0 => "no worker of this job gets a GPU".to_owned(),
        _ => format!("{has} of the {wanted} workers that should have a GPU get one"),
    };
    // Writing to a string cannot fail.
    for (index, holder) in busy {
        let by = holder.map_or("another job".to_owned(), |pid| {
            format!("the job of process {pid}, or one of its workers that still runs")
        });
        let _ = write!(text, "; GPU {index} is taken by {by}");
    }
    match missing {
        Some(missing) if busy.is_empty() => {
            let _ = write!(text, ": {missing}");
        }
        _ if busy.is_empty() => text.push_str(": this machine has no more"),
        _ => text.push_str("; if the job needs these GPUs, start it again once they are free"),
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    #[test]
    fn missing_gpus_are_reported_with_the_reason() {
        assert_snapshot!(lacking_notice(0, 1, &[(0, Some(17))], None), @"no worker of this job gets a GPU; GPU 0 is taken by the job of process 17, or one of its workers that still runs; if the job needs these GPUs, start it again once they are free");
        assert_snapshot!(lacking_notice(1, 2, &[(1, None)], None), @"1 of the 2 workers that should have a GPU get one; GPU 1 is taken by another job; if the job needs these GPUs, start it again once they are free");
        assert_snapshot!(lacking_notice(1, 4, &[], None), @"1 of the 4 workers that should have a GPU get one: this machine has no more");
        assert_snapshot!(lacking_notice(0, 4, &[], Some("the driver reports no GPU")), @"no worker of this job gets a GPU: the driver reports no GPU");
    }

    /// The job's count is used only if the driver does not report its GPUs.
    #[test]
    fn gpus_reported_by_the_driver_replace_the_jobs_count() {
        let unknown = Inventory::default();
        let (leases, names) = candidates(2, &unknown);
        assert_eq!(leases, [GpuLease::plain(0), GpuLease::plain(1)]);
        assert_eq!(names, ["0", "1"]);
        let known = r#"{"known": true, "gpus": [
            {"index": 3, "uuid": "GPU-1", "name": "X", "memory": 1, "part_of": null}]}"#;
        let (leases, names) = candidates(2, &serde_json::from_str(known).unwrap());
        assert_eq!((leases[0].index, leases.len(), names), (3, 1, vec!["GPU-1".to_owned()]));
    }
}
