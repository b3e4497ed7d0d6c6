//! `sandmill inspect COMPONENT`: what a component could access, judged by its imports, and how it differs
//! from another component. A child process parses the files; their code is not run.

use super::WallArgument;
use super::policy::PolicyArgument;
use crate::compile::{Compiler, ImportPower, ScriptDescription};
use crate::model::on_one_line;
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Incremented when the JSON changes incompatibly.
const VERSION: u32 = 1;

#[derive(Debug, clap::Args)]
pub(super) struct InspectArguments {
    /// A component, or a core module with WIT metadata.
    component: PathBuf,
    /// Prints JSON.
    #[arg(long)]
    pub(super) json: bool,
    /// Shows how COMPONENT differs from OTHER, for instance an earlier version.
    #[arg(long, value_name = "OTHER")]
    diff: Option<PathBuf>,
    #[command(flatten)]
    pub(super) wall: WallArgument,
    #[command(flatten)]
    pub(super) policy: PolicyArgument,
}

impl InspectArguments {
    /// The files to inspect.
    pub(super) fn files(&self) -> impl Iterator<Item = &Path> {
        [Some(&self.component), self.diff.as_ref()].into_iter().flatten().map(PathBuf::as_path)
    }
}

/// The text or the JSON for standard output, and whether a job would accept the component's imports.
///
/// # Errors
/// If a file cannot be read or is not a component.
pub(super) fn inspect(
    arguments: &InspectArguments,
    compiler: &Compiler,
) -> anyhow::Result<(String, bool)> {
    let component = compiler.describe(&arguments.component)?;
    let good = component.imports.iter().all(|import| import.refused.is_none());
    let other = match &arguments.diff {
        Some(other) => Some((compiler.describe(other)?, other)),
        None => None,
    };
    let text = match (other, arguments.json) {
        (None, false) => text(&component, &arguments.component),
        (None, true) => pretty(&as_json(&component, &arguments.component)),
        (Some((before, path)), false) => {
            let mut text = String::new();
            let _ = writeln!(text, "from {}, sha256:{}", shown(path), before.sha256);
            let path = shown(&arguments.component);
            let _ = writeln!(text, "to   {path}, sha256:{}", component.sha256);
            text + &difference(&before, &component)
        }
        (Some((before, path)), true) => pretty(&json!({
            "version": VERSION,
            "from": as_json(&before, path),
            "to": as_json(&component, &arguments.component),
            "changes": changes(&before, &component),
        })),
    };
    Ok((text, good))
}

fn shown(path: &Path) -> String {
    on_one_line(&path.display().to_string()).into_owned()
}

fn pretty(value: &Value) -> String {
    format!("{value:#}\n")
}

/// The granted imports, grouped by what they give access to.
fn powers(description: &ScriptDescription) -> BTreeMap<ImportPower, Vec<&str>> {
    let mut powers: BTreeMap<ImportPower, Vec<&str>> = BTreeMap::new();
    for import in description.imports.iter().filter(|import| import.refused.is_none()) {
        powers.entry(import.power).or_default().push(&import.name);
    }
    powers
}

fn as_json(description: &ScriptDescription, path: &Path) -> Value {
    let powers = powers(description).into_iter();
    let powers: Vec<Value> = powers
        .map(|(power, imports)| json!({"power": power, "gives": power.words(), "imports": imports}))
        .collect();
    json!({
        "version": VERSION,
        "file": shown(path),
        "description": description,
        "powers": powers,
        "refused": description.imports.iter().any(|import| import.refused.is_some()),
    })
}

fn text(description: &ScriptDescription, path: &Path) -> String {
    let ScriptDescription { kind, bytes, sha256, imports, exports, .. } = description;
    let mut text = format!("{}: a {kind} of {bytes} bytes\nsha256:{sha256}\n", shown(path));
    let powers = powers(description);
    text.push_str("What it could access, judged by its imports:\n");
    for (power, imports) in &powers {
        let _ = writeln!(text, "  {}: {}", power.name(), power.words());
        for import in imports {
            let _ = writeln!(text, "    {import}");
        }
    }
    if powers.is_empty() {
        text.push_str("  nothing\n");
    }
    let refused: Vec<_> = imports
        .iter()
        .filter_map(|import| import.refused.as_ref().map(|why| (import, why)))
        .collect();
    if !refused.is_empty() {
        text.push_str("Refused imports; a job with one of them does not start:\n");
    }
    for (import, why) in refused {
        let _ = writeln!(text, "  {}: {}: {why}", import.power.name(), import.name);
    }
    if let Some(takes) = description.takes {
        let _ = writeln!(text, "Takes: {takes}");
    }
    text.push_str("Exports:\n");
    for export in exports {
        let _ = writeln!(text, "  {}", export_text(&export.name, &export.functions));
    }
    let _ = writeln!(text, "Memory: {}", memory(description));
    text.push_str("Made with, according to the file itself:\n");
    for tool in tools(description) {
        let _ = writeln!(text, "  {tool}");
    }
    if description.producers.is_empty() {
        text.push_str("  it does not say\n");
    }
    text
}

/// `NAME: FUNCTION, FUNCTION`.
fn export_text(name: &str, functions: &[String]) -> String {
    if functions.is_empty() { name.to_owned() } else { format!("{name}: {}", functions.join(", ")) }
}

fn tools(description: &ScriptDescription) -> Vec<String> {
    let tool = |producer: &crate::compile::Producer| {
        let text = format!("{} {} {}", producer.field, producer.name, producer.version);
        text.trim_end().to_owned()
    };
    description.producers.iter().map(tool).collect()
}

/// The memory that the component declares. How much it may use depends on the job.
fn memory(description: &ScriptDescription) -> String {
    let ScriptDescription { memories, tables, .. } = description;
    let bytes = memories.iter().fold(0_u64, |sum, memory| sum.saturating_add(memory.minimum_bytes));
    let elements = tables.iter().fold(0_u64, |sum, table| sum.saturating_add(table.minimum));
    let plural = |count: usize, one: &str, many: &str| {
        format!("{count} {}", if count == 1 { one } else { many })
    };
    format!(
        "{} of {bytes} bytes at the start, {} of {elements} elements; `limits.memory` limits all \
         of them together",
        plural(memories.len(), "memory", "memories"),
        plural(tables.len(), "table", "tables"),
    )
}

/// What was added and what was removed.
#[derive(Serialize)]
struct ListChange {
    added: Vec<String>,
    removed: Vec<String>,
}

impl ListChange {
    fn between(before: &[String], now: &[String]) -> Self {
        let missing = |of: &[String], within: &[String]| -> Vec<String> {
            of.iter().filter(|one| !within.contains(one)).cloned().collect()
        };
        Self { added: missing(now, before), removed: missing(before, now) }
    }

    fn is_empty(&self) -> bool {
        self.added.is_empty() && self.removed.is_empty()
    }
}

#[derive(Serialize)]
struct ListChanges {
    powers: ListChange,
    imports: ListChange,
    refused: ListChange,
    exports: ListChange,
    producers: ListChange,
    memory: ListChange,
}

fn changes(before: &ScriptDescription, now: &ScriptDescription) -> ListChanges {
    let of = |list: &dyn Fn(&ScriptDescription) -> Vec<String>| {
        ListChange::between(&list(before), &list(now))
    };
    let imports = |refused: bool| {
        move |description: &ScriptDescription| -> Vec<String> {
            let imports = description.imports.iter();
            let imports = imports.filter(|import| import.refused.is_some() == refused);
            imports.map(|import| import.name.clone()).collect()
        }
    };
    ListChanges {
        powers: of(&|description| {
            let powers = powers(description);
            powers.keys().map(|power| format!("{}: {}", power.name(), power.words())).collect()
        }),
        imports: of(&imports(false)),
        refused: of(&imports(true)),
        exports: of(&|description| {
            let exports = description.exports.iter();
            exports.map(|export| export_text(&export.name, &export.functions)).collect()
        }),
        producers: of(&tools),
        memory: of(&|description| vec![memory(description)]),
    }
}

fn difference(before: &ScriptDescription, now: &ScriptDescription) -> String {
    let ListChanges { powers, imports, refused, exports, producers, memory } = changes(before, now);
    let mut text = String::new();
    for (what, change) in [
        ("What it could access", powers),
        ("Imports", imports),
        ("Imports that are refused", refused),
        ("Exports", exports),
        ("Memory", memory),
        ("Made with", producers),
    ] {
        if change.is_empty() {
            continue;
        }
        let _ = writeln!(text, "{what}:");
        for (sign, lines) in [('-', change.removed), ('+', change.added)] {
            for line in lines {
                let _ = writeln!(text, "  {sign} {line}");
            }
        }
    }
    if text.is_empty() {
        text.push_str("No difference in imports, exports, memory and tools.\n");
    }
    text
}
