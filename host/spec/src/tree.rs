//! Parses YAML text into a small tree of nodes that know their lines. The tree is built from parser events
//! with an explicit stack, so that deep nesting and repeated aliases end in an error and not in a stack
//! overflow.

use super::error::{ErrorReport, SettingOrigin, SpecError};
use super::lenient;
use saphyr::{Scalar as Resolved, ScalarStyle, ScanError, Tag};
use saphyr_parser::{Event, Parser};
use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

/// The maximum depth of lists and maps. The deepest key of a job file is at level four; the environments that
/// Azure saves have about ten levels.
const MAX_DEPTH: usize = 32;
/// The maximum number of nodes that aliases may add.
const MAX_ALIASED_NODES: usize = 10_000;

/// A value, and where it was written. The line of a value in a map is the line of its key.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct YamlNode {
    pub(super) origin: SettingOrigin,
    pub(super) value: YamlValue,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum YamlValue {
    Null,
    /// A scalar that is not null, as written.
    Scalar {
        text: String,
        /// Whether YAML reads it as text, as opposed to a number or a truth value.
        is_text: bool,
    },
    List(Vec<YamlNode>),
    Map(Vec<MapEntry>),
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct MapEntry {
    pub(super) key: String,
    pub(super) node: YamlNode,
}

impl YamlNode {
    /// The number of nodes in this tree.
    fn size(&self) -> usize {
        1 + match &self.value {
            YamlValue::Null | YamlValue::Scalar { .. } => 0,
            YamlValue::List(items) => items.iter().map(Self::size).sum(),
            YamlValue::Map(entries) => entries.iter().map(|entry| entry.node.size()).sum(),
        }
    }

    /// Sets the origin of the node and of all nodes below it.
    pub(super) fn set_origin(&mut self, origin: &SettingOrigin) {
        self.map_origin(&|_| origin.clone());
    }

    /// Changes the origin of the node and of all nodes below it.
    pub(super) fn map_origin(&mut self, change: &impl Fn(&SettingOrigin) -> SettingOrigin) {
        self.origin = change(&self.origin);
        match &mut self.value {
            YamlValue::Null | YamlValue::Scalar { .. } => {}
            YamlValue::List(items) => items.iter_mut().for_each(|item| item.map_origin(change)),
            YamlValue::Map(entries) => {
                entries.iter_mut().for_each(|entry| entry.node.map_origin(change));
            }
        }
    }
}

/// Prints the value as a phrase in an error message.
impl fmt::Display for YamlNode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            YamlValue::Null => f.write_str("nothing"),
            YamlValue::List(_) => f.write_str("a list"),
            YamlValue::Map(_) => f.write_str("a map"),
            YamlValue::Scalar { text, is_text: false } => f.write_str(text),
            YamlValue::Scalar { text, is_text: true } => write!(f, "{:?}", shorten(text)),
        }
    }
}

/// Shortens a text that is too long for a message.
pub(super) fn shorten(text: &str) -> Cow<'_, str> {
    const MAX_CHARS: usize = 60;
    match text.char_indices().nth(MAX_CHARS) {
        Some((end, _)) => Cow::Owned(format!("{}…", &text[..end])),
        None => Cow::Borrowed(text),
    }
}

/// Parses one document. `None`, with an error, if there is no usable tree.
pub(super) fn parse(text: &str, report: &ErrorReport) -> Option<YamlNode> {
    let is_valid = |text: &str| Parser::new_from_str(text).all(|event| event.is_ok());
    // `lenient` indents continuation lines that the YAML standard forbids but other tools accept. If the
    // first parse fails and the file has such lines, the file is parsed again with those lines
    // indented. Most files have no such lines, and are parsed only once.
    let indented = lenient::indented(text).filter(|indented| !is_valid(text) && is_valid(indented));
    match indented {
        Some(indented) => parse_strictly(&indented, report),
        None => parse_strictly(text, report),
    }
}

fn parse_strictly(text: &str, report: &ErrorReport) -> Option<YamlNode> {
    let mut builder = TreeBuilder::new(report);
    let mut parser = Parser::new_from_str(text);
    while let Some(event) = parser.next_event() {
        let flow = match event {
            Ok((event, span)) => builder.handle(event, span.start.line()),
            Err(error) => {
                report_syntax_error(&error, text, report);
                return None;
            }
        };
        match flow {
            Flow::Continue => {}
            Flow::Stop => return None,
        }
    }
    match builder.root.take() {
        Some(node) if node.value != YamlValue::Null => Some(node),
        _ => {
            report.error(
                &SettingOrigin::File,
                "",
                "is empty; a job file needs at least entry_script and inputs",
            );
            None
        }
    }
}

/// Parses the value of a `--set`. Fails with the first error, whose line is counted from the start of the
/// value.
pub(super) fn parse_value(text: &str) -> Result<YamlNode, SpecError> {
    // These characters have a special meaning in YAML or are reserved. On a command line, a text that
    // starts with one of them is more likely a glob.
    if text.starts_with(['*', '&', '!', '%', '@', '`']) {
        return Ok(plain(text));
    }
    if matches!(text.trim(), "" | "~" | "null" | "Null" | "NULL") {
        return Ok(YamlNode { origin: SettingOrigin::File, value: YamlValue::Null });
    }
    let report = ErrorReport::default();
    let node = parse(text, &report);
    let mut errors = report.into_errors("").errors;
    match node {
        Some(node) if errors.is_empty() => Ok(node),
        _ if errors.is_empty() => {
            Ok(YamlNode { origin: SettingOrigin::File, value: YamlValue::Null })
        }
        _ => Err(errors.swap_remove(0)),
    }
}

/// Makes a scalar of a text from the command line, without parsing the text as YAML.
pub(super) fn plain(text: &str) -> YamlNode {
    let value = YamlValue::Scalar { text: text.to_owned(), is_text: true };
    YamlNode { origin: SettingOrigin::File, value }
}

fn report_syntax_error(error: &ScanError, text: &str, report: &ErrorReport) {
    let marker = error.marker();
    let line = text.lines().nth(marker.line().saturating_sub(1)).unwrap_or_default();
    let hint = if line.contains("${{") {
        "; between [ ] or { } a reference must be in quotes: \"${{inputs.name}}\""
    } else if line.contains(": *") || line.trim_start().starts_with("- *") {
        "; text that starts with * must be in quotes"
    } else if error.info().contains("tab") || line.starts_with('\t') {
        "; indent with spaces, not with tabs"
    } else if error.info().contains("mapping") && line.matches(": ").count() > 1 {
        "; text that contains \": \" must be in quotes"
    } else {
        ""
    };
    let message = format!("not valid YAML (column {}): {}{hint}", marker.col() + 1, error.info());
    report.error(&SettingOrigin::Line(marker.line().max(1)), "", message);
}

enum Flow {
    Continue,
    Stop,
}

/// A list or map that is not closed yet.
struct Frame {
    line: usize,
    /// The anchor's ID; 0 if there is no anchor.
    anchor: usize,
    value: OpenNode,
}

enum OpenNode {
    List(Vec<YamlNode>),
    /// `seen`: the keys so far, with their lines. `key`: the key whose value comes next, and its line. The
    /// inner `None` means that the key is not text.
    Map {
        entries: Vec<MapEntry>,
        seen: HashMap<String, usize>,
        key: Option<(Option<String>, usize)>,
    },
}

struct TreeBuilder<'r> {
    stack: Vec<Frame>,
    anchors: HashMap<usize, YamlNode>,
    /// The number of nodes that aliases added.
    aliased_nodes: usize,
    documents: usize,
    root: Option<YamlNode>,
    report: &'r ErrorReport,
}

impl<'r> TreeBuilder<'r> {
    fn new(report: &'r ErrorReport) -> Self {
        Self {
            stack: Vec::new(),
            anchors: HashMap::new(),
            aliased_nodes: 0,
            documents: 0,
            root: None,
            report,
        }
    }

    fn handle(&mut self, event: Event<'_>, line: usize) -> Flow {
        match event {
            Event::Nothing | Event::StreamStart | Event::StreamEnd | Event::DocumentEnd => {}
            Event::DocumentStart(_) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second document starts here; a job file holds one job";
                    self.report.error(&SettingOrigin::Line(line), "", message);
                    return Flow::Stop;
                }
            }
            Event::Alias(id) => return self.add_alias(id, line),
            Event::Scalar(text, style, anchor, tag) => {
                self.check_tag(tag.as_deref(), line);
                let value = scalar(text, style, tag.as_ref());
                self.add_value(YamlNode { origin: SettingOrigin::Line(line), value }, anchor);
            }
            Event::SequenceStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), line);
                return self.open(Frame { line, anchor, value: OpenNode::List(Vec::new()) });
            }
            Event::MappingStart(anchor, tag) => {
                self.check_tag(tag.as_deref(), line);
                let value = OpenNode::Map { entries: Vec::new(), seen: HashMap::new(), key: None };
                return self.open(Frame { line, anchor, value });
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(frame) = self.stack.pop() {
                    let value = match frame.value {
                        OpenNode::List(items) => YamlValue::List(items),
                        OpenNode::Map { entries, .. } => YamlValue::Map(entries),
                    };
                    self.add_value(
                        YamlNode { origin: SettingOrigin::Line(frame.line), value },
                        frame.anchor,
                    );
                }
            }
        }
        Flow::Continue
    }

    fn open(&mut self, frame: Frame) -> Flow {
        if self.stack.len() >= MAX_DEPTH {
            let message = format!("lists and maps are nested more than {MAX_DEPTH} deep");
            self.report.error(&SettingOrigin::Line(frame.line), "", message);
            return Flow::Stop;
        }
        self.stack.push(frame);
        Flow::Continue
    }

    fn add_alias(&mut self, id: usize, line: usize) -> Flow {
        let Some(mut node) = self.anchors.get(&id).cloned() else {
            // The parser knows the anchor, and `anchors` does not have its value yet. So the value has begun but
            // not ended.
            let message = "found an alias inside the value that it names";
            self.report.error(&SettingOrigin::Line(line), &self.path(), message);
            return Flow::Stop;
        };
        self.aliased_nodes += node.size();
        if self.aliased_nodes > MAX_ALIASED_NODES {
            let message = format!("aliases add more than {MAX_ALIASED_NODES} values");
            self.report.error(&SettingOrigin::Line(line), "", message);
            return Flow::Stop;
        }
        node.origin = SettingOrigin::Line(line);
        self.add_value(node, 0);
        Flow::Continue
    }

    fn check_tag(&self, tag: Option<&Tag>, line: usize) {
        if let Some(tag) = tag.filter(|tag| !tag.is_yaml_core_schema()) {
            let message =
                format!("the tag {}{} is not supported; remove it", tag.handle, tag.suffix);
            self.report.error(&SettingOrigin::Line(line), &self.path(), message);
        }
    }

    /// Adds a complete value to the list or map that contains it.
    fn add_value(&mut self, mut node: YamlNode, anchor: usize) {
        if anchor > 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let path = self.path();
        let Some(frame) = self.stack.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut frame.value {
            OpenNode::List(items) => items.push(node),
            OpenNode::Map { key: key @ None, .. } => {
                let line =
                    if let SettingOrigin::Line(line) = node.origin { line } else { frame.line };
                let text = match node.value {
                    YamlValue::Scalar { text, .. } => text,
                    _ => {
                        let message = format!("found {node} for a key; a key must be text");
                        self.report.error(&node.origin, &path, message);
                        *key = Some((None, line));
                        return;
                    }
                };
                *key = Some((Some(text), line));
            }
            OpenNode::Map { entries, seen, key } => {
                let Some((Some(key), line)) = key.take() else { return };
                node.origin = SettingOrigin::Line(line);
                if let Some(first) = seen.insert(key.clone(), line) {
                    let message = format!("given twice; first on line {first}");
                    self.report.error(&node.origin, &path, message);
                } else {
                    entries.push(MapEntry { key, node });
                }
            }
        }
    }

    /// The path of the value that is being parsed.
    fn path(&self) -> String {
        let mut path = String::new();
        for frame in &self.stack {
            match &frame.value {
                OpenNode::List(items) => path.push_str(&format!("[{}]", items.len())),
                OpenNode::Map { key: Some((Some(key), _)), .. } => path = join(&path, key),
                OpenNode::Map { .. } => {}
            }
        }
        path
    }
}

/// Returns the path of a key below another path.
pub(super) fn join(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

fn scalar(text: Cow<'_, str>, style: ScalarStyle, tag: Option<&Cow<'_, Tag>>) -> YamlValue {
    let resolved = Resolved::parse_from_cow_and_metadata(Cow::Borrowed(&*text), style, tag);
    match resolved {
        Some(Resolved::Null) => YamlValue::Null,
        Some(Resolved::Boolean(_) | Resolved::Integer(_) | Resolved::FloatingPoint(_)) => {
            YamlValue::Scalar { text: text.into_owned(), is_text: false }
        }
        Some(Resolved::String(_)) | None => {
            YamlValue::Scalar { text: text.into_owned(), is_text: true }
        }
    }
}
