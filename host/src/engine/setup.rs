//! From a checked job to what planner, workers and machine are told.

use super::machine::Policy;
use crate::compile::WASMTIME_VERSION;
use crate::model::{
    GUEST_SOURCE, Input, InputKind, JobDir, Limits, LoggingLevel, Mount, OutputAction,
    OutputFormat, Source, TableFormat, WorkerId,
};
use crate::perf::{MemoryBudget, MonitorOptions};
use crate::protocol::{Cut, PROTOCOL_VERSION, PlanRequest, Setup};
use crate::spec::JobSpec;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

pub(super) fn policy(spec: &JobSpec) -> Policy {
    Policy {
        workers: spec.process_count,
        max_try: spec.run_max_try,
        error_threshold: spec.error_threshold,
        run_timeout: spec.run_invocation_timeout,
        load_timeout: spec.task_overhead_timeout,
        allowed_failed_count: spec.allowed_failed_count,
        allowed_failed_percent: spec.allowed_failed_percent,
        first_task_timeout: spec.first_task_creation_timeout,
        progress_timeout: spec.progress_update_timeout,
        gpus: spec.gpus,
        output_action: spec.output_action,
    }
}

/// What is looked at while the job runs.
pub(super) fn monitor(spec: &JobSpec, job_dir: &JobDir) -> MonitorOptions {
    let table = match &spec.input_kind {
        InputKind::Csv { mini_batch_bytes, .. } => *mini_batch_bytes,
        InputKind::Files { .. } | InputKind::Void { .. } => 0,
    };
    MonitorOptions {
        job_dir: job_dir.clone(),
        interval: spec.resource_monitor_interval,
        budget: MemoryBudget::new(&spec.limits, table),
        wasmtime: WASMTIME_VERSION,
    }
}

/// What the planner is asked for. Also used to show a plan without running it. `spill` is where a
/// shuffle may write.
pub fn plan_request(spec: &JobSpec, sources: &[Source], spill: PathBuf) -> PlanRequest {
    let cut = match &spec.input_kind {
        InputKind::Files { mini_batch_files } => Cut::Files { count: *mini_batch_files },
        InputKind::Csv { mini_batch_bytes, formats, full_inference } => Cut::Csv {
            bytes: *mini_batch_bytes,
            formats: sources
                .iter()
                .map(|source| format_of(&spec.inputs, source, formats))
                .collect(),
            full_inference: *full_inference,
        },
        InputKind::Void { count } => Cut::Void { count: *count },
    };
    PlanRequest {
        protocol: PROTOCOL_VERSION,
        sources: sources.to_vec(),
        cut,
        partition_keys: spec.partition_keys.clone(),
        spill,
        processes: spec.process_count,
    }
}

/// A digest of what decides which mini-batches there are and what they yield. A job is taken up
/// again only if it is the same.
pub(super) fn fingerprint(spec: &JobSpec, sources: &[Source]) -> String {
    let what = (
        plan_request(spec, sources, PathBuf::new()),
        (&spec.arguments, &spec.environment_variables, &spec.side_inputs, &spec.source_directory),
        (&spec.limits, spec.output_action, &spec.append_row_file_name),
    );
    // Plain data always serialises; were it not so, an empty digest would refuse to resume.
    let bytes = postcard::to_stdvec(&what).unwrap_or_default();
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

type Format = (crate::model::CsvFormat, Option<Vec<crate::model::Column>>);

/// Formats are given by input; a source belongs to one.
fn format_of(inputs: &[Input], source: &Source, formats: &[Format]) -> Format {
    let input = inputs.iter().position(|input| input.name == source.dataset);
    input.and_then(|index| formats.get(index).cloned()).unwrap_or_default()
}

/// What every worker of a job is told.
#[derive(Clone, Debug)]
pub(super) struct SetupTemplate {
    job_dir: std::path::PathBuf,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    mounts: Vec<Mount>,
    source_dir: Option<String>,
    sources: Vec<Source>,
    limits: Limits,
    output_action: OutputAction,
    output_format: OutputFormat,
    strict_cardinality: bool,
    profile: bool,
    logging_level: LoggingLevel,
}

impl SetupTemplate {
    pub(super) fn new(spec: &JobSpec, sources: &[Source], job_dir: &Path) -> Self {
        let program = spec.entry_script.file_name().unwrap_or_default().to_string_lossy();
        let arguments = std::iter::once(program.into_owned());
        let mut mounts = spec.side_inputs.clone();
        if let Some(folder) = &spec.source_directory {
            let guest = GUEST_SOURCE.to_owned();
            mounts.push(Mount { host: folder.clone(), guest, writable: false });
        }
        Self {
            job_dir: job_dir.to_owned(),
            arguments: arguments.chain(spec.arguments.iter().cloned()).collect(),
            environment: spec.environment_variables.clone(),
            mounts,
            source_dir: spec.source_directory.as_ref().map(|_| GUEST_SOURCE.to_owned()),
            sources: sources.to_vec(),
            limits: spec.limits.clone(),
            output_action: spec.output_action,
            output_format: spec.output_format.clone(),
            strict_cardinality: spec.strict_cardinality,
            profile: spec.profile,
            logging_level: spec.logging_level,
        }
    }

    pub(super) fn for_worker(
        &self,
        worker: WorkerId,
        gpu_index: Option<u32>,
        tables: &[TableFormat],
    ) -> Setup {
        let template = self.clone();
        Setup {
            protocol: PROTOCOL_VERSION,
            worker,
            job_dir: template.job_dir,
            arguments: template.arguments,
            environment: template.environment,
            mounts: template.mounts,
            source_dir: template.source_dir,
            sources: template.sources,
            tables: tables.to_vec(),
            limits: template.limits,
            output_action: template.output_action,
            output_format: template.output_format,
            strict_cardinality: template.strict_cardinality,
            profile: template.profile,
            logging_level: template.logging_level,
            gpu_index,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::CsvFormat;

    #[test]
    fn each_source_has_the_format_of_its_input() {
        let source = |dataset: &str| Source {
            dataset: dataset.into(),
            root: "/data".into(),
            guest: format!("/inputs/{dataset}"),
            pattern: None,
            partition_format: None,
        };
        let dialect = |delimiter| (CsvFormat { delimiter, ..CsvFormat::default() }, None);
        let inputs = ["a", "b"].map(|name| Input {
            name: name.into(),
            paths: Vec::new(),
            partition_format: None,
        });
        let formats = [dialect(b','), dialect(b';')];
        let sources = [source("a"), source("a"), source("b")];
        let delimiters = sources.map(|source| format_of(&inputs, &source, &formats).0.delimiter);
        assert_eq!(delimiters, [b',', b',', b';']);
    }
}
