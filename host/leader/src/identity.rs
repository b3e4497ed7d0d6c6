//! The identity of a job: the settings that decide its rows. They must be the same for a job to resume, or
//! for its result to be reused. Time-outs, limits, thresholds and the number of workers are not part of it.

use super::chosen_backends::GUEST_MODELS;
use crate::model::{
    Address, Backend, Compression, CsvFormat, InferenceSettings, InputKind, JobInput, Mount,
    OutputFormat, OutputLayout, SliceSize, TableInput, hex,
};
use crate::protocol::node::NodeFindings;
use crate::spec::{JobSpec, ModelSpec, StoredKind};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::path::Path;

/// A value with more bytes than this is stored and compared as a digest.
const MAX_VALUE_BYTES: usize = 500;
/// The prefix of a value that is a digest.
pub(super) const DIGEST_PREFIX: &str = "sha256:";

/// The names and values of all settings that decide rows, except the entry script. A value is JSON, or a
/// digest if it is long or may be a secret.
///
/// The settings tables themselves say which of their settings decide rows. The rest of a job is destructured
/// without `..`. So a new field does not compile until it is added here, or is ignored here with a reason.
///
/// `found`: what the node found, such as digests of the job's folders and models.
pub fn settings(spec: &JobSpec, found: &NodeFindings) -> Vec<(String, String)> {
    let JobSpec {
        inputs,
        input_kind,
        partition_keys,
        arguments,
        own_arguments,
        environment_variables,
        side_inputs,
        source_directory,
        script,
        models,
        inference,
        output,
        append_row_file_name,
        output_format,
        // From the settings tables: see `JobSpec::deciding`.
        settings: _,
        worker: _,
        limits: _,
        job_limits: _,
        // A job directory holds one job, and `claim` compares the job's name.
        name: _,
        // `JobIdentity` has the component's digest. The required digest is checked earlier.
        entry_script: _,
        entry_script_digest: _,
        // The paths that entry scripts see are in `side_inputs`.
        side_input_names: _,
        // Used below for side inputs. Models are identified by their content.
        stored: _,
        // Where files are copied after all rows are written.
        upload: _,
        parent: _,
        // Where the job records what is committed.
        job_store: _,
        // The resources that compute, and their time limits (docs/parallel-run-step.md C25).
        process_count: _,
        node_count: _,
        gpus: _,
        progress_update_timeout: _,
        // `prepare` has already applied this name if an earlier version began the job.
        earlier_file_name: _,
        // What the user sees of the job while it runs.
        notices: _,
        conversions: _,
        // The settings themselves are compared.
        job_file_sha256: _,
        text: _,
        // The component and the source files are identified by their content.
        fetched: _,
        // "latest" is already resolved: the paths are in `inputs`, `side_inputs` and `models`.
        latest: _,
        named_data: _,
    } = spec;
    let mut settings = IdentitySettings(Vec::new());
    settings.inputs(inputs, input_kind);
    settings.insert("partition_keys", partition_keys);
    let own_count = (*own_arguments).min(arguments.len());
    settings.insert("arguments", &&arguments[..own_count]);
    for (name, value) in environment_variables {
        // The value may be a password.
        settings.0.push((format!("environment_variables.{name}"), digest(value.as_bytes())));
    }
    for (index, (mount, files)) in side_inputs.iter().zip(&found.side_inputs).enumerate() {
        let address = spec.stored_at(StoredKind::SideInput(index));
        settings.side_input(mount, address, files);
    }
    if let (Some(path), Some(files)) = (source_directory, &found.source_directory) {
        settings.insert("source_directory", path);
        settings.0.push(("the files in source_directory".to_owned(), stored_digest(files)));
    }
    if let Some(script) = script {
        settings.insert("entry_script", &script.guest);
        if let (None, Some(files)) = (source_directory, &found.source_directory) {
            settings
                .0
                .push(("the Python files beside entry_script".to_owned(), stored_digest(files)));
        }
    }
    settings.models(models, inference, found);
    settings.insert("output", output);
    settings.insert("append_row_file_name", append_row_file_name);
    settings.output_format(output_format);
    for (key, value) in spec.deciding() {
        settings.insert_text(key, value);
    }
    settings.0
}

struct IdentitySettings(Vec<(String, String)>);

impl IdentitySettings {
    fn insert(&mut self, name: &str, value: &impl Serialize) {
        // Plain data always serialises. If it did not, all such values would compare as equal.
        self.insert_text(name, serde_json::to_string(value).unwrap_or_default());
    }

    fn insert_text(&mut self, name: &str, text: String) {
        let text = if text.len() > MAX_VALUE_BYTES { digest(text.as_bytes()) } else { text };
        self.0.push((name.to_owned(), text));
    }

    fn inputs(&mut self, inputs: &[JobInput], kind: &InputKind) {
        let names: Vec<&str> = inputs.iter().map(|input| input.name.as_str()).collect();
        self.insert("inputs", &names);
        for JobInput { name, paths, partition_format, take } in inputs {
            self.insert(&format!("inputs.{name}.path"), paths);
            self.insert(&format!("inputs.{name}.partition_format"), partition_format);
            // Jobs of earlier versions, which did not have this setting, can still resume.
            if take.is_some() {
                self.insert(&format!("inputs.{name}.take"), take);
            }
        }
        match kind {
            InputKind::Files { mini_batch_files } => {
                let noun = if *mini_batch_files == 1 { "file" } else { "files" };
                self.insert("mini_batch_size", &format!("{mini_batch_files} {noun}"));
            }
            InputKind::Tables { mini_batch_size, inputs: tables, full_inference } => {
                let size = match mini_batch_size {
                    SliceSize::Bytes(bytes) => format!("{bytes} bytes"),
                    SliceSize::Rows(_) => mini_batch_size.to_string(),
                };
                self.insert("mini_batch_size", &size);
                let inference = if *full_inference { &"full" } else { &"first part" };
                self.insert("schema_inference", inference);
                for (input, table) in inputs.iter().zip(tables) {
                    self.table(&input.name, table);
                }
            }
            InputKind::Void { count } => self.insert("rank_mini_batch_count", count),
        }
    }

    fn table(&mut self, input: &str, table: &TableInput) {
        let TableInput {
            kind,
            csv,
            schema,
            columns,
            dropped,
            types,
            hive,
            query,
            // Decides whether the job begins, not what its rows are.
            files: _,
        } = table;
        let CsvFormat {
            delimiter,
            header,
            null_values,
            quoted_newlines,
            quote,
            escape,
            comment,
            skip_lines,
            rename_duplicates,
        } = csv;
        let default = CsvFormat::default();
        let character = |byte: &Option<u8>| json!(byte.map(char::from));
        let mut format = json!({
            "kind": kind, "delimiter": char::from(*delimiter), "header": header,
            "null_values": null_values,
        });
        // Jobs of earlier versions, which did not have these settings, can still resume.
        if !quoted_newlines {
            format["quoted_newlines"] = json!(false);
        }
        if *quote != default.quote {
            format["quote"] = character(quote);
        }
        if escape.is_some() {
            format["escape"] = character(escape);
        }
        if comment.is_some() {
            format["comment"] = character(comment);
        }
        if *skip_lines > 0 {
            format["skip_lines"] = json!(skip_lines);
        }
        if *rename_duplicates {
            format["duplicate_names"] = json!("rename");
        }
        self.insert(&format!("inputs.{input}.format"), &format);
        self.insert(&format!("inputs.{input}.schema"), schema);
        self.insert(&format!("inputs.{input}.columns"), columns);
        self.insert(&format!("inputs.{input}.hive"), hive);
        // Jobs of earlier versions, which did not have these settings, can still resume.
        if !dropped.is_empty() {
            self.insert(&format!("inputs.{input}.drop_columns"), dropped);
        }
        if !types.is_empty() {
            self.insert(&format!("inputs.{input}.types"), types);
        }
        if query.is_some() {
            self.insert(&format!("inputs.{input}.query"), query);
        }
    }

    /// `address`: the side input's address, if it comes from a store.
    fn side_input(&mut self, mount: &Mount, address: Option<&Address>, files: &str) {
        // The entry script never writes to it.
        let Mount { host, guest, writable: _ } = mount;
        let name = format!("the side input at {guest}");
        match address {
            // The files come from the store, so the path on this machine does not matter.
            Some(address) => self.insert(&name, &address.to_string()),
            None => self.insert(&name, host),
        }
        self.0.push((format!("the files in {name}"), stored_digest(files)));
    }

    /// A job without models has the same identity as in versions that did not support models. Backends differ
    /// in the last digits of their results, so the backend that `auto` selects is part of the identity.
    fn models(
        &mut self,
        models: &[ModelSpec],
        inference: &InferenceSettings,
        found: &NodeFindings,
    ) {
        let InferenceSettings {
            allow_guest_models,
            // The node reports the library that it found.
            onnxruntime: _,
            // These affect only speed and memory.
            threads: _,
            gpu_memory: _,
            // Where the library finds its own parts.
            cuda: _,
        } = inference;
        let library = found.backends.iter().find_map(|backend| backend.library.as_deref());
        let library = library.and_then(Path::file_name);
        let auto = library.map_or("tract".into(), |library| library.to_string_lossy());
        let backend_value = |backend| match backend {
            Backend::Auto => json!(["auto", auto]),
            named => json!(named),
        };
        for (model, found) in models.iter().zip(&found.models) {
            let ModelSpec {
                name,
                backend,
                device,
                fallback,
                // The node reports the file and folder that it found.
                file: _,
                folder: _,
                // The node has compared these with the digest that it computed, and the digest is part of the
                // identity.
                bytes: _,
                digest: _,
                digest_at: _,
                registered: _,
            } = model;
            let name = format!("models.{name}");
            let value = json!({
                "file": found.file,
                "backend": backend_value(*backend), "device": device, "fallback": fallback,
            });
            self.insert(&name, &value);
            let sha256 = stored_digest(&found.sha256);
            self.0.push((format!("{name}: the ONNX file"), sha256));
            if let Some(folder) = &found.folder {
                self.0.push((format!("the files of {name}"), stored_digest(folder)));
            }
        }
        if *allow_guest_models {
            self.insert(GUEST_MODELS, &backend_value(Backend::Auto));
        }
    }

    fn output_format(&mut self, format: &OutputFormat) {
        let OutputFormat {
            kind,
            compression,
            delimiter,
            header,
            quoting,
            null: null_value,
            index,
            join,
            layout,
        } = format;
        let mut value = json!({
            "type": kind, "delimiter": char::from(*delimiter), "header": header,
            "quoting": quoting, "null_value": null_value, "index": index,
        });
        // Jobs of earlier versions, which did not have these settings, can still resume.
        if *compression != Compression::None {
            value["compression"] = json!(compression);
        }
        self.insert("output_format", &value);
        if join.is_some() {
            self.insert("join", join);
        }
        if *layout != OutputLayout::File {
            self.insert("output_layout", layout);
        }
    }
}

fn digest(bytes: &[u8]) -> String {
    stored_digest(&hex(Sha256::digest(bytes)))
}

/// The stored form of a digest.
fn stored_digest(digest: &str) -> String {
    format!("{DIGEST_PREFIX}{digest}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::node::PreparedModel;
    use std::collections::BTreeSet;
    use std::fs;

    /// Journals of earlier versions contain these names and values, and their jobs must still resume and be
    /// reused.
    #[test]
    fn names_and_values_are_stable_across_versions() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["in", "weights", "source"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
        }
        for file in ["entry.wasm", "source/entry.wasm", "digits.onnx"] {
            fs::write(dir.path().join(file), "").unwrap();
        }
        let job = dir.path().join("job.yaml");
        let settings_of = |text: &str| {
            fs::write(&job, text).unwrap();
            let spec = crate::spec::load_plain(&job, &[]).unwrap();
            let found = NodeFindings {
                side_inputs: vec!["aa".into()],
                source_directory: Some("bb".into()),
                models: vec![PreparedModel {
                    name: "digits".into(),
                    file: "digits.onnx".into(),
                    sha256: "cc".into(),
                    folder: Some("dd".into()),
                }],
                ..NodeFindings::sample()
            };
            let mut settings = settings(&spec, &found);
            settings.sort();
            let lines = settings.iter().map(|(name, value)| format!("{name}: {value}"));
            let lines: Vec<String> = lines.collect();
            lines.join("\n").replace(dir.path().to_str().unwrap(), "[dir]")
        };
        let little = "entry_script: entry.wasm\ninputs: {texts: in}\n";
        insta::assert_snapshot!(settings_of(little), @r#"
        append_row_file_name: "parallel_run_step.txt"
        arguments: []
        inputs: ["texts"]
        inputs.texts.partition_format: null
        inputs.texts.path: ["[dir]/in"]
        mini_batch_size: "10 files"
        ordered: false
        output: null
        output_action: "append_row"
        output_files: "error"
        output_format: {"delimiter":" ","header":false,"index":false,"null_value":"","quoting":"minimal","type":"text"}
        partition_keys: []
        strict_cardinality: false
        "#);
        let much = "
name: nightly
description: all of it
tenant: a
entry_script: entry.wasm
source_directory: source
inputs:
  b:
    {path: in, format: csv, delimiter: tab, null_values: [NA], quoted_newlines: false, quote: none,
     escape: '\\', comment: '%', skip_lines: 2, duplicate_names: rename,
     columns: [x], hive: false}
side_inputs: {weights: weights}
models: {digits: {path: digits.onnx, backend: tract, device: gpu, fallback: cpu}}
inference: {allow_guest_models: true, threads: 2, gpu_memory: 1 GB}
output: in/../results
arguments: [--fast, 1]
pass_settings: true
environment_variables: {MODE: fast}
mini_batch_size: 7 rows
process_count_per_node: 2
gpus: 1
sample: 50
output_action: append_row
append_row_file_name: rows.csv
output_format: {type: csv, compression: gzip, delimiter: ';', quoting: all, null_value: NA}
append_row_dataframe_header: false
output_layout: parts
join: [x]
output_files: overwrite
allow_reuse: false
error_threshold: 3
allowed_failed_count: 4
allowed_failed_percent: 12.5
strict_cardinality: true
run_max_try: 9
run_invocation_timeout: 1.5
task_overhead_timeout: 2
progress_update_timeout: 900
first_task_creation_timeout: 3
logging_level: DEBUG
resource_monitor_interval: 0
profiling_module: guest
parent: up
copy_logs_to_parent: true
metrics_name_prefix: p_
limits: {memory: 64 MB, fuel: 5, job_time: 8}
os_sandbox: 'off'
deterministic: true
schema_inference: full
";
        insta::assert_snapshot!(settings_of(much), @r#"
        append_row_file_name: "rows.csv"
        arguments: ["--fast","1"]
        deterministic: true
        environment_variables.MODE: sha256:115dc3606fbf8691fb69f2aefec86f2ecd302362a0502b3a9648bf2c4dc8290f
        inference.allow_guest_models: ["auto","tract"]
        inputs: ["b"]
        inputs.b.columns: ["x"]
        inputs.b.format: {"comment":"%","delimiter":"\t","duplicate_names":"rename","escape":"\\","header":true,"kind":"csv","null_values":["NA"],"quote":null,"quoted_newlines":false,"skip_lines":2}
        inputs.b.hive: false
        inputs.b.partition_format: null
        inputs.b.path: ["[dir]/in"]
        inputs.b.schema: null
        join: {"columns":["x"]}
        mini_batch_size: "7 rows"
        models.digits: {"backend":"tract","device":"gpu","fallback":true,"file":"digits.onnx"}
        models.digits: the ONNX file: sha256:cc
        ordered: false
        output: "[dir]/in/../results"
        output_action: "append_row"
        output_files: "overwrite"
        output_format: {"compression":"gzip","delimiter":";","header":false,"index":false,"null_value":"NA","quoting":"all","type":"csv"}
        output_layout: "parts"
        partition_keys: []
        sample: 50.0
        schema_inference: "full"
        source_directory: "[dir]/source"
        strict_cardinality: true
        the files in source_directory: sha256:bb
        the files in the side input at /side_inputs/weights: sha256:aa
        the files of models.digits: sha256:dd
        the side input at /side_inputs/weights: "[dir]/weights"
        "#);
        let ordered = "entry_script: entry.wasm\nrank_mini_batch_count: 3\nordered: true\n\
                       output_action: summary_only\n";
        insta::assert_snapshot!(settings_of(ordered), @r#"
        append_row_file_name: "parallel_run_step.txt"
        arguments: []
        inputs: []
        ordered: true
        output: null
        output_action: "summary_only"
        output_files: "error"
        output_format: {"delimiter":" ","header":false,"index":false,"null_value":"","quoting":"minimal","type":"text"}
        partition_keys: []
        rank_mini_batch_count: 3
        strict_cardinality: false
        "#);
        // These are exactly the keys that decide rows, except the entry script, which is compared by its
        // digest.
        let key = |line: &str| {
            let name = line.trim_start_matches("the files in ").trim_start_matches("the files of ");
            let key = name.split(['.', ':']).next().unwrap_or_default();
            if key.starts_with("the side input") { "side_inputs" } else { key }.to_owned()
        };
        let named: BTreeSet<String> =
            [settings_of(little), settings_of(much), settings_of(ordered)]
                .iter()
                .flat_map(|text| text.lines().map(key))
                .collect();
        let deciding = crate::spec::keys_that_decide_rows().filter(|key| *key != "entry_script");
        assert_eq!(named, deciding.map(str::to_owned).collect());
    }

    /// The stored settings are complete, but a secret value does not appear in them.
    #[test]
    fn settings_cover_what_decides_rows_and_hide_secrets() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("entry.wasm"), "").unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        let job = dir.path().join("job.yaml");
        let text = "name: abc\nentry_script: entry.wasm\ninputs: {texts: in}\n\
                    environment_variables: {TOKEN: secret}\narguments: [--fast]\n";
        fs::write(&job, text).unwrap();
        let settings_of = |overrides: &[(&str, &str)]| {
            let overrides: Vec<_> =
                overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            settings(&crate::spec::load_plain(&job, &overrides).unwrap(), &NodeFindings::sample())
        };
        let was = settings_of(&[]);
        assert!(!format!("{was:?}").contains("secret"), "{was:?}");
        // Rule C25 in docs/parallel-run-step.md: these do not decide rows.
        for accepted in [
            ("run_invocation_timeout", "9"),
            ("process_count_per_node", "3"),
            ("error_threshold", "-1"),
            ("run_max_try", "7"),
            ("limits.memory", "99MB"),
            ("logging_level", "DEBUG"),
        ] {
            assert_eq!(settings_of(&[accepted]), was, "{accepted:?}");
        }
        // Rule E11: settings that are passed to the entry script may still change.
        let passed =
            |count| settings_of(&[("pass_settings", "true"), ("process_count_per_node", count)]);
        assert_eq!(passed("3"), passed("4"));
        for refused in [
            ("arguments", "[--slow]"),
            ("environment_variables.TOKEN", "other"),
            ("mini_batch_size", "3"),
            ("output_action", "summary_only"),
            ("append_row_file_name", "rows.txt"),
            ("output_layout", "parts"),
            ("deterministic", "true"),
            ("inputs.texts.path", "in/*"),
            ("output_format.type", "csv"),
            ("output_format.null_value", "NA"),
            ("output_format.delimiter", ";"),
            ("output_format.header", "true"),
        ] {
            assert_ne!(settings_of(&[refused]), was, "{refused:?}");
        }
    }
}
