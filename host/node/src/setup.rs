//! Makes the requests for the planner and the set-ups of workers from a checked job.

use super::job::NodeJob;
use super::models::placed;
use super::python;
use super::single_file;
use crate::dataset::csv::MAX_SLICE;
use crate::inference::inference_memory;
use crate::model::MemoryBudget;
use crate::model::{
    GUEST_OUTPUT, GUEST_SOURCE, GUEST_TEMPORARY, GpuLease, InferenceSettings, InputKind, JobInput,
    JobModel, SliceSize, Source, TableFormat, TableInput, WorkerId,
};
use crate::protocol::{CutOptions, ObjectsToAsk, PROTOCOL_VERSION, PlanRequest, WorkerSetup};
use crate::spec::{JobSpec, ModelSpec};
use std::path::{Path, PathBuf};

/// The memory budget of each worker. `models` and `inference`: the models and libraries that were found on
/// this machine.
pub(super) fn budget(
    spec: &JobSpec,
    models: &[ModelSpec],
    inference: &InferenceSettings,
) -> MemoryBudget {
    let table = match &spec.input_kind {
        // All rows of a key, or of a database, are one mini-batch of any size.
        InputKind::Tables { inputs, .. }
            if !spec.partition_keys.is_empty()
                || inputs.iter().any(|input| input.kind.is_whole()) =>
        {
            MAX_SLICE
        }
        InputKind::Tables { mini_batch_size: SliceSize::Bytes(bytes), .. } => *bytes,
        // The size of these rows is known only when the input is planned.
        InputKind::Tables { mini_batch_size: SliceSize::Rows(_), .. } => MAX_SLICE,
        InputKind::Files { .. } | InputKind::Void { .. } => 0,
    };
    let models: Vec<&Path> =
        models.iter().map(|model| model.folder.as_deref().unwrap_or(&model.file)).collect();
    let inference = inference_memory(&models, inference, &spec.limits);
    MemoryBudget::new(&spec.limits, table, inference)
}

/// The request for the planner, whether the job runs or its plan is only shown. `spill`: the folder for the
/// files of a shuffle.
pub fn plan_request(spec: &JobSpec, sources: &[Source], spill: PathBuf) -> PlanRequest {
    let options = match &spec.input_kind {
        InputKind::Files { mini_batch_files } => CutOptions::Files { count: *mini_batch_files },
        InputKind::Tables { mini_batch_size, inputs, full_inference } => CutOptions::Tables {
            size: *mini_batch_size,
            inputs: sources.iter().map(|source| table_of(&spec.inputs, source, inputs)).collect(),
            full_inference: *full_inference,
        },
        InputKind::Void { count } => CutOptions::Void { count: *count },
    };
    // We list every field, so that none keeps its default by oversight.
    PlanRequest {
        protocol: PROTOCOL_VERSION,
        sources: sources.to_vec(),
        cut: options,
        partition_keys: spec.partition_keys.clone(),
        spill,
        processes: spec.process_count,
        os_sandbox: spec.worker.os_sandbox,
        memory: spec.limits.memory.0,
        // These fields depend on an earlier run or planner, or on the stores; the caller sets them.
        retried_files: Vec::new(),
        reports_files: false,
        asks: ObjectsToAsk::Never,
        deadly: Vec::new(),
        sample: spec.settings.sample,
        reports_positions: false,
        continue_from: None,
        stores_spill: false,
    }
}

/// The table settings of the input to which a source belongs.
fn table_of(inputs: &[JobInput], source: &Source, tables: &[TableInput]) -> TableInput {
    let input = inputs.iter().position(|input| input.name == source.dataset);
    input.and_then(|index| tables.get(index).cloned()).unwrap_or_default()
}

/// The set-up that all workers of a job share, before GPUs and tables are known. The job's models must be
/// where workers find them.
pub(super) fn template(job: &NodeJob) -> WorkerSetup {
    let NodeJob { spec, real, staged, job_dir, .. } = job;
    let models = placed(&staged.models, &job.inspected_models, job_dir);
    let program = match &spec.script {
        // As in ordinary Python, argument 0 is the path of the script. The runtime loads this file.
        Some(script) => script.guest.clone(),
        None => job.entry_script.file_name().unwrap_or_default().to_string_lossy().into_owned(),
    };
    let arguments = std::iter::once(program);
    let mut mounts = single_file::placed(real.side_inputs(&staged.side_inputs), job_dir);
    mounts.extend(models.iter().map(JobModel::mount));
    if real.source_directory.is_some() || spec.script.is_some() {
        mounts.push(python::source(real.source_directory.as_deref(), job_dir));
    }
    mounts.extend(job.library.as_deref().map(python::library));
    WorkerSetup {
        protocol: PROTOCOL_VERSION,
        worker: WorkerId(0),
        workers: spec.process_count,
        job_dir: job_dir.root().to_owned(),
        spill: job.spill.clone(),
        arguments: arguments.chain(spec.arguments.iter().cloned()).collect(),
        environment: environment(spec),
        source_dir: mounts
            .iter()
            .any(|mount| mount.guest == GUEST_SOURCE)
            .then(|| GUEST_SOURCE.to_owned()),
        temporary: spec.script.is_some()
            && mounts.iter().all(|mount| mount.guest != GUEST_TEMPORARY),
        mounts,
        sources: staged.sources.clone(),
        tables: Vec::new(),
        settings: spec.worker.clone(),
        limits: spec.limits.clone(),
        output_format: spec.output_format.clone(),
        keeps_rows: job.keeps_rows,
        gpu: None,
        models,
        inference: job.inference.clone(),
    }
}

pub(super) fn for_worker(
    template: &WorkerSetup,
    worker: WorkerId,
    gpu: Option<GpuLease>,
    tables: &[TableFormat],
) -> WorkerSetup {
    let template = template.clone();
    let environment = with_gpu(template.environment, gpu.as_ref());
    WorkerSetup { worker, environment, tables: tables.to_vec(), gpu, ..template }
}

/// The environment of every guest: the job's variables, and the variables that ParallelRunStep sets (rules V1
/// and V2 in `docs/parallel-run-step.md`) unless the job sets them.
fn environment(spec: &JobSpec) -> Vec<(String, String)> {
    let mut environment = spec.environment_variables.clone();
    let gpus = (spec.gpus > 0).then(|| (GPU_COUNT_VARIABLE, spec.gpus.to_string()));
    let output = Some(("AZUREML_BI_OUTPUT_PATH", GUEST_OUTPUT.to_owned()));
    for (name, value) in [output, gpus].into_iter().flatten() {
        if environment.iter().all(|(known, _)| known != name) {
            environment.push((name.to_owned(), value));
        }
    }
    if let Some(script) = &spec.script {
        environment.retain(|(name, _)| name != python::SETTINGS_VARIABLE);
        environment.push(python::variable(spec.worker.logging_level, script.profile));
    }
    environment
}

/// The environment of a worker. A GPU lease overrides the job's `CUDA_VISIBLE_DEVICES`. Without a
/// lease, the environment is unchanged (rule G2 in `docs/parallel-run-step.md`).
fn with_gpu(
    mut environment: Vec<(String, String)>,
    gpu: Option<&GpuLease>,
) -> Vec<(String, String)> {
    if let Some(lease) = gpu {
        environment.retain(|(name, _)| name != VISIBLE_GPUS_VARIABLE);
        environment.push((VISIBLE_GPUS_VARIABLE.to_owned(), lease.visible.clone()));
    }
    environment
}

const GPU_COUNT_VARIABLE: &str = "AZ_BATCHAI_GPU_COUNT_FOUND";
const VISIBLE_GPUS_VARIABLE: &str = "CUDA_VISIBLE_DEVICES";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CsvFormat;

    fn pairs(list: &[(&str, &str)]) -> Vec<(String, String)> {
        list.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// Rules G1 and G2: a lease sets the variable, and overrides the job's value. Without a lease, the
    /// variable is not changed.
    #[test]
    fn cuda_visible_devices_names_only_the_leased_gpu() {
        let own = pairs(&[("A", "1"), ("CUDA_VISIBLE_DEVICES", "7")]);
        assert_eq!(with_gpu(own.clone(), None), own);
        assert_eq!(
            with_gpu(own, Some(&GpuLease::plain(2))),
            pairs(&[("A", "1"), ("CUDA_VISIBLE_DEVICES", "2")])
        );
        assert_eq!(with_gpu(pairs(&[("A", "1")]), None), pairs(&[("A", "1")]));
    }

    /// Rules G3, V1 and V2.
    #[test]
    fn guests_get_the_variables_of_parallel_run_step() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["entry.wasm", "a.txt"] {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        let job = dir.path().join("job.yaml");
        std::fs::write(&job, "name: abc\nentry_script: entry.wasm\ninputs: {texts: a.txt}\n")
            .unwrap();
        let mut spec = crate::spec::load_plain(&job, &[]).unwrap();
        spec.gpus = 0;
        let output = ("AZUREML_BI_OUTPUT_PATH", "/output");
        assert_eq!(environment(&spec), pairs(&[output]));
        spec.gpus = 2;
        let count = ("AZ_BATCHAI_GPU_COUNT_FOUND", "2");
        assert_eq!(environment(&spec), pairs(&[output, count]));
        spec.environment_variables = pairs(&[("AZUREML_BI_OUTPUT_PATH", "/mine")]);
        assert_eq!(environment(&spec), pairs(&[("AZUREML_BI_OUTPUT_PATH", "/mine"), count]));
    }

    /// Rule W6: a worker is not killed for a mini-batch that the planner allows.
    #[test]
    fn the_budget_covers_the_largest_mini_batch_by_keys() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("entry.wasm"), "").unwrap();
        std::fs::write(dir.path().join("a.csv"), "k\n1\n").unwrap();
        let job = dir.path().join("job.yaml");
        let total = |more: &str| {
            let text =
                "name: abc\nentry_script: entry.wasm\ninputs: {t: {path: a.csv, format: csv}}\n";
            std::fs::write(&job, format!("{text}{more}")).unwrap();
            let spec = crate::spec::load_plain(&job, &[]).unwrap();
            budget(&spec, &spec.models, &spec.inference).total().0
        };
        assert!(total("partition_keys: [k]\n") - total("mini_batch_size: 1KB\n") > MAX_SLICE);
        let small = "limits: {memory: 64 MB}\n";
        let keyed = total(&format!("partition_keys: [k]\n{small}"));
        assert!(keyed - total(&format!("mini_batch_size: 1KB\n{small}")) < 7 * MAX_SLICE);
        assert_eq!(total("mini_batch_size: 7 rows\n"), total("partition_keys: [k]\n"));
    }

    #[test]
    fn each_source_has_the_format_of_its_input() {
        let source = |dataset: &str| Source::new(dataset, "/data".into());
        let dialect = |delimiter| TableInput {
            csv: CsvFormat { delimiter, ..CsvFormat::default() },
            ..TableInput::default()
        };
        let inputs = ["a", "b"].map(|name| JobInput { name: name.into(), ..JobInput::sample() });
        let tables = [dialect(b','), dialect(b';')];
        let sources = [source("a"), source("a"), source("b")];
        let delimiters = sources.map(|source| table_of(&inputs, &source, &tables).csv.delimiter);
        assert_eq!(delimiters, [b',', b',', b';']);
    }
}
