//! The colours of the output. Sandmill uses them on terminals, unless the user or the terminal refuses them.
//!
//! Lines are coloured by their prefixes, after untrusted text has been escaped: no text can add its own
//! colours.

use console::{Style, Term, measure_text_width};
use std::borrow::Cow;
use std::ffi::OsString;
use std::io::IsTerminal;

/// When to use colours. `Auto` uses them on a terminal, unless NO_COLOR is set or TERM is dumb.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Color {
    #[default]
    Auto,
    Always,
    Never,
}

/// The option, for the help text only: [`Color::from_arguments`] parses it before `clap` parses the command
/// line.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Output")]
pub(super) struct ColorArgument {
    /// When to use colours. auto: on a terminal, unless NO_COLOR is set or TERM is dumb.
    #[arg(long, value_name = "WHEN", global = true, default_value = "auto")]
    color: Color,
}

impl Color {
    /// The value from the command line. `clap` reports an invalid value.
    pub(super) fn from_arguments(arguments: impl Iterator<Item = OsString>) -> Self {
        let words: Vec<_> = arguments.map(|word| word.to_string_lossy().into_owned()).collect();
        let options =
            words.iter().position(|word| word == "--").map_or(&words[..], |index| &words[..index]);
        let given = options.iter().enumerate().rev().find_map(|(index, word)| {
            let next = || words.get(index + 1).map(String::as_str);
            word.strip_prefix("--color=").or_else(|| next().filter(|_| word == "--color"))
        });
        match given {
            Some("always") => Self::Always,
            Some("never") => Self::Never,
            _ => Self::Auto,
        }
    }

    /// Turns colours on or off for all later output. Returns the setting for `clap`.
    pub(super) fn begin(self) -> clap::ColorChoice {
        let wants = |is_terminal: bool| match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => is_terminal && wants_colors(|name| std::env::var_os(name)),
        };
        console::set_colors_enabled(wants(is_terminal(OutputStream::Out)));
        console::set_colors_enabled_stderr(wants(is_terminal(OutputStream::Err)));
        match self {
            Self::Always => clap::ColorChoice::Always,
            Self::Never => clap::ColorChoice::Never,
            Self::Auto => clap::ColorChoice::Auto,
        }
    }
}

/// Whether the environment allows colours on a terminal.
fn wants_colors(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let is_refused = variable("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_off = variable("CLICOLOR").is_some_and(|value| value == "0");
    !is_refused && !is_off && !is_dumb(variable("TERM"))
}

/// Whether a terminal with this TERM supports neither colours nor cursor movement.
pub(super) fn is_dumb(term: Option<OsString>) -> bool {
    term.is_none_or(|term| term == "dumb")
}

/// Standard output or standard error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OutputStream {
    Out,
    Err,
}

pub(super) fn is_terminal(stream: OutputStream) -> bool {
    match stream {
        OutputStream::Out => std::io::stdout().is_terminal(),
        OutputStream::Err => std::io::stderr().is_terminal(),
    }
}

/// A line as shown, without its line end: coloured and, if it is a note, wrapped at words.
pub(super) fn styled(line: &str, stream: OutputStream) -> Cow<'_, str> {
    let columns = if is_note(line) { columns(stream) } else { None };
    let line = columns.map_or(Cow::Borrowed(line), |columns| wrapped(line, columns));
    let has_colors = match stream {
        OutputStream::Out => console::colors_enabled(),
        OutputStream::Err => console::colors_enabled_stderr(),
    };
    if has_colors { Cow::Owned(colored(&line)) } else { line }
}

/// The width of the terminal; `None` if it is unknown.
fn columns(stream: OutputStream) -> Option<usize> {
    let term = match stream {
        OutputStream::Out => Term::stdout(),
        OutputStream::Err => Term::stderr(),
    };
    term.size_checked().map(|(_, columns)| columns.into())
}

fn is_note(line: &str) -> bool {
    line.starts_with("note:") || line.starts_with("warning:")
}

fn style() -> Style {
    Style::new().force_styling(true)
}

/// The prefixes of lines, and their colours.
fn prefixes() -> [(&'static str, Style); 5] {
    [
        ("error:", style().red().bold()),
        ("warning:", style().yellow()),
        ("note:", style().yellow()),
        ("stopping:", style().yellow()),
        ("  caused by:", style().red()),
    ]
}

/// The words that say how a job ended. In a line, they follow the job's name.
fn job_endings() -> [(&'static str, Style); 5] {
    [
        ("completed", style().green()),
        ("failed", style().red()),
        ("did not begin", style().red()),
        ("was cancelled", style().yellow()),
        ("was interrupted", style().yellow()),
    ]
}

/// The labels of lines that contain only a path.
const PATH_LABELS: [&str; 2] = ["  output ", "  read next "];

fn colored(line: &str) -> String {
    for (prefix, style) in prefixes() {
        if let Some(rest) = line.strip_prefix(prefix) {
            return format!("{}{rest}", style.apply_to(prefix));
        }
    }
    if let Some(rest) = line.strip_prefix("Job ") {
        let (name, rest) = rest.split_once(' ').unwrap_or((rest, ""));
        for (end, style) in job_endings() {
            if let Some(rest) = rest.strip_prefix(end) {
                return format!("Job {name} {}{rest}", style.apply_to(end));
            }
        }
    }
    if PATH_LABELS.iter().any(|label| line.starts_with(label))
        && let Some(index) = line
            .rfind("  ")
            .map(|index| index + 2)
            .or_else(|| line.rfind(' ').map(|index| index + 1))
    {
        return format!("{}{}", &line[..index], style().dim().apply_to(&line[index..]));
    }
    line.to_owned()
}

/// Wraps a note to lines of at most this many columns, with the later lines indented. Other lines stay whole,
/// since users may copy from them.
fn wrapped(line: &str, columns: usize) -> Cow<'_, str> {
    const INDENT: &str = "  ";
    if !is_note(line) || columns < 20 || measure_text_width(line) <= columns {
        return Cow::Borrowed(line);
    }
    let mut text = String::new();
    let mut used = 0;
    for word in line.split(' ') {
        let width = measure_text_width(word);
        if used > 0 && used + 1 + width > columns {
            text.push('\n');
            text.push_str(INDENT);
            used = INDENT.len();
        } else if !text.is_empty() {
            text.push(' ');
            used += 1;
        }
        text.push_str(word);
        used += width;
    }
    Cow::Owned(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_coloured_by_how_they_begin() {
        let lines = [
            "error: job.yaml:1: nme: unknown",
            "  caused by: disk on fire",
            "warning: slow",
            "note: error: is a word here",
            "stopping: Ctrl-C",
            "Job digits completed in 1.2 s.",
            "Job digits failed after 1.2 s: no",
            "Job failed completed in 1.2 s.",
            "Job digits was cancelled after 1.2 s: Ctrl-C",
            "Job digits did not begin: no",
            "  output        jobs/digits/out put.txt",
            "  read next     jobs/digits/logs/x",
            "  items         error: 3",
            "plain",
        ];
        let text = lines.map(colored).join("\n").replace('\u{1b}', "^");
        insta::assert_snapshot!(text, @"
        ^[31m^[1merror:^[0m job.yaml:1: nme: unknown
        ^[31m  caused by:^[0m disk on fire
        ^[33mwarning:^[0m slow
        ^[33mnote:^[0m error: is a word here
        ^[33mstopping:^[0m Ctrl-C
        Job digits ^[32mcompleted^[0m in 1.2 s.
        Job digits ^[31mfailed^[0m after 1.2 s: no
        Job failed ^[32mcompleted^[0m in 1.2 s.
        Job digits ^[33mwas cancelled^[0m after 1.2 s: Ctrl-C
        Job digits ^[31mdid not begin^[0m: no
          output        ^[2mjobs/digits/out put.txt^[0m
          read next     ^[2mjobs/digits/logs/x^[0m
          items         error: 3
        plain
        ");
    }

    #[test]
    fn notes_are_wrapped_at_words() {
        let note = "note: columns of input people: id int64, age int64, name string, a_column_that_is_wider_than_it_all";
        insta::assert_snapshot!(wrapped(note, 30), @"
        note: columns of input people:
          id int64, age int64, name
          string,
          a_column_that_is_wider_than_it_all
        ");
        assert_eq!(wrapped("error: sandmill resume jobs/a --set x", 20).lines().count(), 1);
        assert_eq!(wrapped(note, 200), note);
    }

    #[test]
    fn option_and_environment_decide_on_colours() {
        let of = |line: &str| Color::from_arguments(line.split(' ').map(OsString::from));
        assert_eq!(of("sandmill run x --color never"), Color::Never);
        assert_eq!(of("sandmill --color=always run x"), Color::Always);
        assert_eq!(of("sandmill run -- --color=always"), Color::Auto);
        assert_eq!(of("sandmill run --color"), Color::Auto);
        let wants = |variables: &[(&str, &str)]| {
            wants_colors(|name| {
                let found = variables.iter().find(|(it, _)| *it == name);
                found.map(|(_, value)| OsString::from(value))
            })
        };
        assert!(wants(&[("TERM", "xterm")]));
        assert!(wants(&[("TERM", "xterm"), ("NO_COLOR", "")]));
        assert!(!wants(&[("TERM", "xterm"), ("NO_COLOR", "1")]));
        assert!(!wants(&[("TERM", "xterm"), ("CLICOLOR", "0")]));
        assert!(!wants(&[("TERM", "dumb")]) && !wants(&[]));
    }
}
