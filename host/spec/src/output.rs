//! Checks the settings of the output: the folder, the output file's name, and the format of rows.

use super::defaults::Defaults;
use super::error::ErrorReport;
use super::job_file_location::JobFileLocation;
use super::raw::RawJob;
use super::scope::Located;
use super::settings_file::{self, TableSettings};
use super::settings_files::SettingsFiles;
use super::tree;
use crate::model::{
    Address, Compression, InputKind, Join, OutputAction, OutputFormat, OutputKind, OutputLayout,
    Quoting,
};
use std::path::{Path, PathBuf};

/// Returns the folder for results. `None` if the output goes to a store, or if there was an error.
pub(super) fn folder(
    given: &Located<String>,
    location: &JobFileLocation,
    report: &ErrorReport,
) -> Option<PathBuf> {
    let text = given.value.trim();
    if text.is_empty() {
        given.blame(report, "found an empty text; name a folder, or leave the key out");
        return None;
    }
    if Address::looks_like_one(text) {
        return None;
    }
    let path = location.resolve(text);
    if path.metadata().is_ok_and(|metadata| !metadata.is_dir()) {
        given.blame(report, format!("{} is a file; name a folder", path.display()));
    }
    Some(path)
}

/// Returns the address in a store to which results go. `None` if results stay on this machine, or if there
/// was an error.
pub(super) fn address(given: &Located<String>, report: &ErrorReport) -> Option<Address> {
    let text = given.value.trim();
    if !Address::looks_like_one(text) {
        return None;
    }
    let parsed = text.parse::<Address>().map_err(|error| error.to_string());
    let refuse_glob = |address: Address| match address.is_glob() {
        true => Err(format!("found {address}; expected a folder of a store, without wildcards")),
        false => Ok(address),
    };
    match parsed.and_then(refuse_glob) {
        Ok(address) => Some(address),
        Err(message) => {
            given.blame(report, message);
            None
        }
    }
}

/// Returns the address of a side input or a model that is in a store. `None` for other paths, also for
/// names in Azure (`azureml:`).
pub(super) fn address_of(given: &Located<String>, report: &ErrorReport) -> Option<Address> {
    if given.value.trim().starts_with("azureml:") { None } else { address(given, report) }
}

/// The file and the format of rows.
pub(super) struct RowsTarget {
    pub(super) file_name: String,
    /// The name in earlier versions of Sandmill, if it differs.
    pub(super) earlier_file_name: Option<String>,
    pub(super) format: OutputFormat,
}

/// Checks how rows are written. If rows are written, also reads the settings file in `script_folder`.
pub(super) fn rows(
    raw: &RawJob,
    action: OutputAction,
    script_folder: Option<(&Path, &SettingsFiles)>,
    defaults: &Defaults<'_>,
    report: &ErrorReport,
) -> RowsTarget {
    defaults.note("output_action", &raw.settings.output_action, action);
    let settings = match action {
        OutputAction::AppendRow => {
            check_file_name(raw.append_row_file_name.as_ref(), report);
            script_folder.and_then(|(folder, files)| settings_file::read(folder, files, report))
        }
        OutputAction::SummaryOnly => None,
    };
    let mut format = format(raw, settings.as_ref(), action, report);
    if action == OutputAction::AppendRow {
        format.layout = layout(raw, defaults, report);
    }
    let given = defaults.value_or_default(raw, |raw| &raw.append_row_file_name);
    let azure_name = format.azure_file_name(&given);
    let file_name = match &raw.append_row_file_name {
        Some(_) => given,
        None if defaults.dialect.is_azure() => azure_name.clone(),
        None => format.file_name(&given),
    };
    let has_other_name = raw.append_row_file_name.is_none() && file_name != azure_name;
    let earlier_file_name = has_other_name.then_some(azure_name);
    if action == OutputAction::AppendRow && raw.append_row_file_name.is_none() {
        defaults.mention("append_row_file_name", &file_name);
    }
    RowsTarget { file_name, earlier_file_name, format }
}

fn layout(raw: &RawJob, defaults: &Defaults<'_>, report: &ErrorReport) -> OutputLayout {
    let layout = defaults.value_or_default(raw, |raw| &raw.output_layout);
    if layout == OutputLayout::Parts
        && let Some(ordered) = raw.settings.ordered.as_ref().filter(|setting| setting.value)
    {
        ordered.blame(
            report,
            "with output_layout: parts each worker's rows are in its own file, in the order in \
             which it made them, so the rows as a whole have no order; remove one of the two",
        );
    }
    layout
}

/// Characters that an output file's name must not contain (docs/parallel-run-step.md C14).
const FORBIDDEN_IN_NAME: &str = r##"~"#%&*:<>?/\{|}"##;

fn check_file_name(given: Option<&Located<String>>, report: &ErrorReport) {
    let Some(given) = given else { return };
    let name = given.value.as_str();
    if let Some(bad) = name.chars().find(|c| FORBIDDEN_IN_NAME.contains(*c) || c.is_control()) {
        let message = format!(
            "found {name:?} with {bad:?} in it; a file name must have none of \
             ~ \" # % & * : < > ? / \\ {{ | }}"
        );
        given.blame(report, message);
    } else if name.trim().is_empty() || matches!(name, "." | "..") || name.len() > 255 {
        let shown = tree::shorten(name);
        let message = format!("found {shown:?}; expected a file name of 1 to 255 bytes");
        given.blame(report, message);
    }
}

/// The format of rows, from `output_format`, `append_row_dataframe_header` (docs/parallel-run-step.md A9) and
/// the settings file beside the entry script (rule A11). These sources must not contradict each other.
fn format(
    raw: &RawJob,
    settings: Option<&TableSettings>,
    action: OutputAction,
    report: &ErrorReport,
) -> OutputFormat {
    let given = &raw.output_format;
    let kind = given.kind.as_ref().map_or(OutputKind::Text, |kind| kind.value);
    let mut format = OutputFormat::default_for(kind);
    if action == OutputAction::SummaryOnly {
        note_unused(raw, report);
        return format;
    }
    format.compression = compression(given.compression.as_ref(), format.compression, kind, report);
    if !matches!(kind, OutputKind::Text | OutputKind::Csv) {
        refuse_line_settings(raw, kind, settings, report);
        return format;
    }
    let file = settings.map(|settings| settings.file.as_str()).unwrap_or_default();
    let byte_setting = |field: fn(&TableSettings) -> Option<u8>| settings.and_then(field);
    let flag_setting = |field: fn(&TableSettings) -> Option<bool>| settings.and_then(field);
    let show_byte = |byte: &u8| format!("{:?}", char::from(*byte));

    let delimiter =
        agree(given.delimiter.as_ref(), byte_setting(|s| s.delimiter), file, show_byte, report);
    format.delimiter = delimiter.unwrap_or(format.delimiter);

    let dataframe = raw.append_row_dataframe_header.as_ref();
    let header = agree(
        given.header.as_ref(),
        dataframe.map(|setting| setting.value),
        "append_row_dataframe_header",
        bool::to_string,
        report,
    );
    let header_setting = given.header.as_ref().or(dataframe);
    let header =
        agree(header_setting, flag_setting(|s| s.header), file, bool::to_string, report).or(header);
    format.header = header.unwrap_or(format.header);

    let quoting = settings.and_then(|settings| settings.quoting);
    let quoting = agree(
        given.quoting.as_ref(),
        quoting,
        file,
        |quoting| quoting_word(*quoting).into(),
        report,
    );
    format.quoting = quoting.unwrap_or(format.quoting);

    let null = settings.and_then(|settings| settings.null_value.clone());
    let null = agree(given.null_value.as_ref(), null, file, |text| format!("{text:?}"), report);
    format.null = null.unwrap_or_default();
    if let Some(setting) =
        given.null_value.as_ref().filter(|setting| setting.value.contains(['\n', '\r', '\0']))
    {
        setting.blame(report, "found a line end or a NUL in it; each row is one line");
    }
    format.index = flag_setting(|settings| settings.index).unwrap_or(false);
    format
}

/// Returns the value of a setting that may be given in two places. If the values differ, an error names both
/// places.
fn agree<T: PartialEq + Clone>(
    given: Option<&Located<T>>,
    other: Option<T>,
    other_place: &str,
    show: impl Fn(&T) -> String,
    report: &ErrorReport,
) -> Option<T> {
    if let (Some(given), Some(other)) = (given, &other)
        && given.value != *other
    {
        let message = format!(
            "found {}, but {other_place} says {}; make them the same, or remove one of them",
            show(&given.value),
            show(other)
        );
        given.blame(report, message);
    }
    given.map(|given| given.value.clone()).or(other)
}

fn quoting_word(quoting: Quoting) -> &'static str {
    match quoting {
        Quoting::Minimal => "minimal",
        Quoting::All => "all",
        Quoting::Nonnumeric => "nonnumeric",
        Quoting::None => "none",
    }
}

fn note_unused(raw: &RawJob, report: &ErrorReport) {
    let format = &raw.output_format;
    let has_format = format.kind.is_some()
        || format.compression.is_some()
        || format.delimiter.is_some()
        || format.header.is_some()
        || format.quoting.is_some()
        || format.null_value.is_some();
    for (name, given) in [
        ("output_format", has_format),
        (
            "append_row_dataframe_header",
            raw.append_row_dataframe_header.as_ref().is_some_and(|setting| setting.value),
        ),
        ("output_layout", raw.output_layout.is_some()),
        ("ordered", raw.settings.ordered.as_ref().is_some_and(|setting| setting.value)),
        ("join", raw.join.is_some()),
    ] {
        if given {
            report.notice(format!("{name} has no effect: output_action is summary_only"));
        }
    }
}

/// Returns the columns of the input that are put before the columns of each row.
pub(super) fn join(raw: &RawJob, inputs: &InputKind, report: &ErrorReport) -> Option<Join> {
    let given = raw.join.as_ref()?;
    let (names, is_single) = &given.value;
    let blame = |message: &str| given.blame(report, message);
    let listed: Vec<&str> = names.iter().map(String::as_str).collect();
    match (inputs, listed.as_slice()) {
        (_, ["input"]) if *is_single => {}
        (_, _) if *is_single => {
            blame("expected input (all columns of the input), or a list of columns (e.g. [id])");
        }
        (_, []) => blame("found an empty list; name at least one column, or leave the key out"),
        (InputKind::Files { .. }, [Join::FILE]) => {}
        (InputKind::Files { .. }, _) => {
            blame("an input of files has only the column file; write join: input");
        }
        _ => {}
    }
    let twice = names.iter().enumerate().find(|(index, name)| names[..*index].contains(name));
    if let Some((_, name)) = twice {
        given.blame(report, format!("names {name:?} twice"));
    }
    if matches!(inputs, InputKind::Void { .. }) {
        blame("there is no input to join; remove it");
    }
    Some(if *is_single { Join::Input } else { Join::Columns(names.clone()) })
}

fn compression(
    given: Option<&Located<Compression>>,
    default: Compression,
    kind: OutputKind,
    report: &ErrorReport,
) -> Compression {
    let Some(given) = given else { return default };
    let known = kind.compressions();
    if !known.contains(&given.value) {
        let names: Vec<_> = known.iter().map(|compression| compression.name()).collect();
        let message = format!(
            "found {}, and output_format.type is {}, which allows {}",
            given.value.name(),
            kind.name(),
            names.join(", ")
        );
        given.blame(report, message);
    }
    given.value
}

/// Refuses settings of text and CSV for other kinds of output.
fn refuse_line_settings(
    raw: &RawJob,
    kind: OutputKind,
    settings: Option<&TableSettings>,
    report: &ErrorReport,
) {
    let name = kind.name();
    let format = &raw.output_format;
    let header = format.header.as_ref().or(raw.append_row_dataframe_header.as_ref());
    for (origin, key) in [
        format.delimiter.as_ref().map(|it| (&it.origin, &it.key)),
        header.filter(|setting| setting.value).map(|it| (&it.origin, &it.key)),
        format.quoting.as_ref().map(|it| (&it.origin, &it.key)),
        format.null_value.as_ref().map(|it| (&it.origin, &it.key)),
    ]
    .into_iter()
    .flatten()
    {
        report.error(
            origin,
            key,
            format!("is for text and csv only, and output_format.type is {name}; remove it"),
        );
    }
    if let (Some(settings), Some(kind)) = (settings, &format.kind) {
        let message = format!(
            "found {name}, but {} says how text is written; remove one of them",
            settings.file
        );
        kind.blame(report, message);
    }
}
