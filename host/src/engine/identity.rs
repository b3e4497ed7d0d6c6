//! What decides a job's rows: it must be the same for a job to be taken up again, or for its result
//! to be reused. Time-outs, limits, thresholds and the number of workers are not part of it.

use super::models::Seen;
use crate::journal::JobIdentity;
use crate::model::{Backend, Compression, InputKind, OutputLayout, SliceSize, hex};
use crate::spec::{JobSpec, StoredKind};
use serde::Serialize;
use serde_json::json;
use sha2::{Digest, Sha256};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use walkdir::WalkDir;

/// A value longer than this many bytes is kept, and compared, as its digest.
const SHOWN: usize = 500;
/// Begins a value that is a digest.
const DIGEST: &str = "sha256:";
/// So many files of a folder that is shown whole are looked at.
const FILES: usize = 100_000;
/// So many differences are told.
const TOLD: usize = 5;

/// Names and values of all settings that decide rows, but for the entry script. Values are JSON, or
/// a digest where they are long or may be secret.
///
/// `job_file`: where the job comes from. It says all of it, so that as one of the files that the entry
/// script can see it does not count: else nothing in it could be changed.
/// `models`: what its models were when they were looked at.
pub(super) fn settings(
    spec: &JobSpec,
    models: &[Seen],
    job_file: Option<&Path>,
) -> Vec<(String, String)> {
    let job_file = job_file.and_then(|path| path.canonicalize().ok());
    let job_file = job_file.as_deref();
    let mut settings = Settings(Vec::new());
    inputs(spec, &mut settings);
    settings.put("partition_keys", &spec.partition_keys);
    let own = spec.own_arguments.min(spec.arguments.len());
    settings.put("arguments", &&spec.arguments[..own]);
    for (name, value) in &spec.environment_variables {
        // It may be a password.
        settings.0.push((format!("environment_variables.{name}"), digest(value.as_bytes())));
    }
    for (index, mount) in spec.side_inputs.iter().enumerate() {
        let name = format!("the side input at {}", mount.guest);
        match spec.stored_at(StoredKind::SideInput(index)) {
            // Where it lies on this machine is another matter.
            Some(address) => settings.put(&name, &address.to_string()),
            None => settings.put(&name, &mount.host),
        }
        settings.0.push((format!("the files in {name}"), content(&mount.host, job_file)));
    }
    if let Some(path) = &spec.source_directory {
        settings.put("source_directory", path);
        settings.0.push(("the files in source_directory".to_owned(), content(path, job_file)));
    }
    self::models(spec, models, job_file, &mut settings);
    settings.put("output", &spec.output);
    settings.put("output_action", &spec.output_action);
    settings.put("append_row_file_name", &spec.append_row_file_name);
    let format = &spec.output_format;
    let mut told = json!({
        "type": format.kind, "delimiter": char::from(format.delimiter), "header": format.header,
        "quoting": format.quoting, "null_value": format.null, "index": format.index,
    });
    // Jobs of earlier versions, which knew no such setting, are taken up as ever.
    if format.compression != Compression::None {
        told["compression"] = json!(format.compression);
    }
    settings.put("output_format", &told);
    if format.join.is_some() {
        settings.put("join", &format.join);
    }
    if format.layout != OutputLayout::File {
        settings.put("output_layout", &format.layout);
    }
    settings.put("ordered", &spec.ordered);
    settings.put("output_files", &spec.output_files);
    settings.put("strict_cardinality", &spec.strict_cardinality);
    // Jobs of earlier versions, which knew no such setting, are taken up as ever.
    if spec.deterministic {
        settings.put("deterministic", &true);
    }
    settings.0
}

fn inputs(spec: &JobSpec, settings: &mut Settings) {
    let names: Vec<&str> = spec.inputs.iter().map(|input| input.name.as_str()).collect();
    settings.put("inputs", &names);
    for input in &spec.inputs {
        settings.put(&format!("inputs.{}.path", input.name), &input.paths);
        let partition = format!("inputs.{}.partition_format", input.name);
        settings.put(&partition, &input.partition_format);
    }
    match &spec.input_kind {
        InputKind::Files { mini_batch_files } => {
            let noun = if *mini_batch_files == 1 { "file" } else { "files" };
            settings.put("mini_batch_size", &format!("{mini_batch_files} {noun}"));
        }
        InputKind::Tables { mini_batch_size, inputs, full_inference } => {
            let size = match mini_batch_size {
                SliceSize::Bytes(bytes) => format!("{bytes} bytes"),
                SliceSize::Rows(_) => mini_batch_size.to_string(),
            };
            settings.put("mini_batch_size", &size);
            settings.put("schema_inference", if *full_inference { &"full" } else { &"first part" });
            for (input, table) in spec.inputs.iter().zip(inputs) {
                let csv = &table.csv;
                let delimiter = char::from(csv.delimiter);
                let format = json!({
                    "kind": table.kind, "delimiter": delimiter, "header": csv.header,
                    "null_values": csv.null_values,
                });
                settings.put(&format!("inputs.{}.format", input.name), &format);
                settings.put(&format!("inputs.{}.schema", input.name), &table.schema);
                settings.put(&format!("inputs.{}.columns", input.name), &table.columns);
                settings.put(&format!("inputs.{}.hive", input.name), &table.hive);
                // Jobs of earlier versions, which knew no such setting, are taken up as ever.
                if table.query.is_some() {
                    settings.put(&format!("inputs.{}.query", input.name), &table.query);
                }
            }
        }
        InputKind::Void { count } => settings.put("rank_mini_batch_count", count),
    }
}

/// Jobs without models are as they were before there were any. Backends differ in the last digits: which
/// one `auto` comes to is a setting, too.
fn models(spec: &JobSpec, seen: &[Seen], job_file: Option<&Path>, settings: &mut Settings) {
    let library = spec.inference.onnxruntime.as_deref().and_then(Path::file_name);
    let auto = library.map_or("tract".into(), |library| library.to_string_lossy());
    let runs = |backend| match backend {
        Backend::Auto => json!(["auto", auto]),
        named => json!(named),
    };
    for (model, seen) in spec.models.iter().zip(seen) {
        let name = format!("models.{}", model.name);
        let how = json!({
            "file": model.file.file_name().map(|name| name.to_string_lossy()),
            "backend": runs(model.backend), "device": model.device, "fallback": model.fallback,
        });
        settings.put(&name, &how);
        settings.0.push((format!("{name}: the ONNX file"), format!("{DIGEST}{}", seen.sha256)));
        if let Some(folder) = &model.folder {
            settings.0.push((format!("the files of {name}"), content(folder, job_file)));
        }
    }
    if spec.inference.allow_guest_models {
        settings.put("inference.allow_guest_models", &runs(Backend::Auto));
    }
}

struct Settings(Vec<(String, String)>);

impl Settings {
    fn put(&mut self, name: &str, value: &impl Serialize) {
        // Plain data always serialises; were it not so, all would be as one.
        let text = serde_json::to_string(value).unwrap_or_default();
        let text = if text.len() > SHOWN { digest(text.as_bytes()) } else { text };
        self.0.push((name.to_owned(), text));
    }
}

fn digest(bytes: &[u8]) -> String {
    format!("{DIGEST}{}", hex(Sha256::digest(bytes)))
}

/// A digest of a folder's files: their names, sizes and times. What a version control system or a
/// compiler keeps for itself does not count, as it changes by being looked at; nor does `job_file`.
fn content(folder: &Path, job_file: Option<&Path>) -> String {
    let is_cache = |path: &Path| {
        path.file_name().is_some_and(|name| name == ".git") || path.join("CACHEDIR.TAG").exists()
    };
    let entries = WalkDir::new(folder)
        .sort_by_file_name()
        .into_iter()
        .filter_entry(|entry| !entry.file_type().is_dir() || !is_cache(entry.path()))
        .filter_map(Result::ok)
        .filter(|entry| !entry.file_type().is_dir())
        .filter(|entry| !job_file.is_some_and(|file| is_same(entry.path(), file)));
    let mut seen = Vec::new();
    for entry in entries.take(FILES) {
        let path = entry.path();
        let name = path.strip_prefix(folder).unwrap_or(path);
        seen.extend(name.as_os_str().as_bytes());
        seen.push(0);
        // Of a link, what it leads to.
        if let Ok(metadata) = path.metadata() {
            for number in [metadata.size().cast_signed(), metadata.mtime(), metadata.mtime_nsec()] {
                seen.extend(number.to_le_bytes());
            }
        }
    }
    digest(&seen)
}

/// Whether the path is, or leads to, a file whose path is without links.
fn is_same(path: &Path, file: &Path) -> bool {
    path.file_name() == file.file_name() && path.canonicalize().is_ok_and(|path| path == file)
}

/// What is not as it was, in words: `arguments: was ["--a"], is now ["--b"]`; none if nothing.
pub(super) fn differences(was: &JobIdentity, is: &JobIdentity) -> Option<String> {
    let mut told = Vec::new();
    if was.entry_script_digest != is.entry_script_digest {
        told.push("the entry script is another component than it was".to_owned());
    }
    let value = |settings: &[(String, String)], name: &str| {
        settings.iter().find(|(known, _)| known == name).map(|(_, value)| value.clone())
    };
    for (name, now) in &is.settings {
        match value(&was.settings, name) {
            None => told.push(format!("{name}: was not set, is now {}", shown(now))),
            Some(before) if before == *now => {}
            Some(before) if [&before, now].iter().any(|text| text.starts_with(DIGEST)) => {
                let verb = if name.starts_with("the files") {
                    "are not what they were"
                } else {
                    "is not what it was"
                };
                told.push(format!("{name} {verb}"));
            }
            Some(before) => by_field(name, &before, now, &mut told),
        }
    }
    for (name, before) in &was.settings {
        if value(&is.settings, name).is_none() {
            told.push(format!("{name}: was {}, is now not set", shown(before)));
        }
    }
    let more = told.len().saturating_sub(TOLD);
    told.truncate(TOLD);
    if more > 0 {
        told.push(format!("and {more} more"));
    }
    Some(told.join("; ")).filter(|text| !text.is_empty())
}

/// What differs of a setting with fields of its own, as `output_format.header`; else all of it.
fn by_field(name: &str, before: &str, now: &str, told: &mut Vec<String>) {
    let fields = |text: &str| serde_json::from_str::<serde_json::Map<_, _>>(text);
    let (Ok(was), Ok(is)) = (fields(before), fields(now)) else {
        return told.push(format!("{name}: was {before}, is now {now}"));
    };
    for (field, now) in &is {
        match was.get(field) {
            Some(before) if before == now => {}
            Some(before) => told.push(format!("{name}.{field}: was {before}, is now {now}")),
            None => told.push(format!("{name}.{field}: was not set, is now {now}")),
        }
    }
    for (field, before) in was.iter().filter(|(field, _)| !is.contains_key(*field)) {
        told.push(format!("{name}.{field}: was {before}, is now not set"));
    }
}

fn shown(value: &str) -> &str {
    if value.starts_with(DIGEST) { "set" } else { value }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::Timestamp;
    use std::fs;

    fn identity(settings: &[(&str, &str)]) -> JobIdentity {
        let settings = settings.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        JobIdentity {
            name: "iris".into(),
            id: "1".into(),
            entry_script_digest: "ab".into(),
            settings: settings.collect(),
            created: Timestamp::UNIX_EPOCH,
        }
    }

    #[test]
    fn differences_are_named() {
        let secret = digest(b"one");
        let was = identity(&[
            ("arguments", r#"["--a"]"#),
            ("ordered", "false"),
            ("output_format", r#"{"type":"text","header":false}"#),
            ("environment_variables.TOKEN", &secret),
            ("environment_variables.OLD", &secret),
            ("rank_mini_batch_count", "3"),
        ]);
        assert_eq!(differences(&was, &was), None);
        let other = digest(b"two");
        let mut is = identity(&[
            ("arguments", r#"["--b"]"#),
            ("ordered", "false"),
            ("output_format", r#"{"type":"csv","header":false}"#),
            ("environment_variables.TOKEN", &other),
            ("mini_batch_size", "\"1 files\""),
        ]);
        insta::assert_snapshot!(differences(&was, &is).unwrap(), @r#"arguments: was ["--a"], is now ["--b"]; output_format.type: was "text", is now "csv"; environment_variables.TOKEN is not what it was; mini_batch_size: was not set, is now "1 files"; environment_variables.OLD: was set, is now not set; and 1 more"#);
        is.entry_script_digest = "cd".into();
        let told = differences(&was, &is).unwrap();
        assert!(told.starts_with("the entry script is another component than it was; "), "{told}");
        assert!(told.ends_with("; and 2 more"), "{told}");
    }

    #[test]
    fn a_folder_is_known_by_its_files() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write("a/model.bin", "1");
        let first = content(dir.path(), None);
        write("target/CACHEDIR.TAG", "");
        write("target/debug/x", "1");
        write(".git/index", "1");
        assert_eq!(content(dir.path(), None), first);
        write("a/model.bin", "12");
        let second = content(dir.path(), None);
        assert_ne!(second, first);
        write("b", "");
        assert_ne!(content(dir.path(), None), second);
    }

    /// C25: time-outs may change in the job file, also where the entry script can see that.
    #[test]
    fn the_job_file_is_no_file_of_the_folders_that_are_shown() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        let job = dir.path().canonicalize().unwrap().join("job.yaml");
        let known = || content(dir.path(), Some(&job));
        fs::write(&job, "run_max_try: 1").unwrap();
        let first = known();
        fs::write(&job, "run_max_try: 22").unwrap();
        assert_eq!(known(), first);
        fs::write(dir.path().join("sub/job.yaml"), "another").unwrap();
        assert_ne!(known(), first);
    }

    /// What was once a secret is not in what is kept.
    #[test]
    fn settings_name_what_decides_rows_and_keep_no_secrets() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("entry.wasm"), "").unwrap();
        fs::create_dir(dir.path().join("in")).unwrap();
        let job = dir.path().join("job.yaml");
        let text = "name: abc\nentry_script: entry.wasm\ninputs: {texts: in}\n\
                    environment_variables: {TOKEN: secret}\narguments: [--fast]\n";
        fs::write(&job, text).unwrap();
        let of = |overrides: &[(&str, &str)]| {
            let overrides: Vec<_> =
                overrides.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            settings(&crate::spec::load(&job, &overrides).unwrap(), &[], Some(&job))
        };
        let was = of(&[]);
        assert!(!format!("{was:?}").contains("secret"), "{was:?}");
        // C25: these do not decide rows.
        for accepted in [
            ("run_invocation_timeout", "9"),
            ("process_count_per_node", "3"),
            ("error_threshold", "-1"),
            ("run_max_try", "7"),
            ("limits.memory", "99MB"),
            ("logging_level", "DEBUG"),
        ] {
            assert_eq!(of(&[accepted]), was, "{accepted:?}");
        }
        // E11: settings that are passed on to the entry script may change as ever.
        let passed = |count| of(&[("pass_settings", "true"), ("process_count_per_node", count)]);
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
        ] {
            assert_ne!(of(&[refused]), was, "{refused:?}");
        }
    }
}
