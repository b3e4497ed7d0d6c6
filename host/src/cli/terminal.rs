//! The only module that writes to standard output and standard error. Texts may contain untrusted words
//! (keys, paths, names, headers of inputs), so this module escapes control characters and invisible
//! characters.
//! `tests/tests/repository/floors.rs` (`only_the_terminal_module_prints`) makes sure that no other file
//! prints.

use super::exit::{Exit, Problem};
use super::palette::{self, OutputStream};
use crate::model::{on_one_line, printable, printable_json};
use anyhow::Context as _;
use std::backtrace::{Backtrace, BacktraceStatus};
use std::fs::File;
use std::io::{self, ErrorKind, IsTerminal, Stdout, Write};
use std::os::fd::AsFd as _;
use std::path::PathBuf;
use std::process::Stdio;

/// Writes a text for people to standard error. Line breaks stay. Errors are ignored, so that Sandmill
/// continues without a reader.
pub(super) fn say(text: &str) {
    let _ = stderr().write_all(format!("{text}\n").as_bytes());
}

/// Writes a line of JSON for programs to standard error. Its values stay unchanged.
pub(super) fn say_json(line: &str) {
    let _ = io::stderr().write_all(format!("{}\n", printable_json(line)).as_bytes());
}

/// Writes a text for people to standard output. A closed pipe is not an error.
pub(super) fn print(text: &str) -> Result<(), Problem> {
    let text = printable(text);
    let lines = text.split_inclusive('\n').map(|line| {
        let (line, end) = line.strip_suffix('\n').map_or((line, ""), |line| (line, "\n"));
        format!("{}{end}", palette::styled(line, OutputStream::Out))
    });
    write(&lines.collect::<String>())
}

/// Writes JSON for programs to standard output. Its values stay unchanged.
pub(super) fn print_json(text: &str) -> Result<(), Problem> {
    write(&printable_json(text))
}

/// Writes a line of JSON to standard output, for programs that read while the command runs.
///
/// # Errors
/// If the line cannot be written, or if the pipe was closed.
pub(super) fn write_json_line(line: &str) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(format!("{}\n", printable_json(line)).as_bytes())?;
    stdout.flush()
}

/// Standard input and standard output, for streams of tables.
///
/// # Errors
/// If one of them is a terminal, or cannot be used.
pub(super) fn streams() -> anyhow::Result<(File, File)> {
    let (from, to) = (io::stdin(), io::stdout());
    anyhow::ensure!(
        !from.is_terminal(),
        "standard input is a terminal: an Arrow IPC stream has to come from a file or a program, as in \
         sandmill map score.py < table.arrows > scores.arrows"
    );
    anyhow::ensure!(
        !to.is_terminal(),
        "standard output is a terminal: the results are an Arrow IPC stream, for a file or a program, as in \
         sandmill map score.py < table.arrows > scores.arrows"
    );
    let from = from.as_fd().try_clone_to_owned().context("standard input cannot be read")?;
    let to = to.as_fd().try_clone_to_owned().context("standard output cannot be written")?;
    Ok((from.into(), to.into()))
}

/// Clears the screen before a text that replaces the previous one, if standard output is a terminal.
pub(super) fn clear_screen() {
    if io::stdout().is_terminal() {
        let _ = io::stdout().write_all(b"\x1b[H\x1b[2J");
    }
}

/// The standard output for programs that we call. It is our standard error, because our standard output is
/// only for results.
pub(super) fn for_children() -> Stdio {
    io::stderr().into()
}

/// Writes paths for programs to standard output, one per line. They are unchanged, unless standard output is
/// a terminal.
pub(super) fn print_paths(paths: &[PathBuf]) -> Result<(), Problem> {
    let is_terminal = io::stdout().is_terminal();
    let lines: String = paths
        .iter()
        .map(|path| path.display().to_string())
        .map(|path| if is_terminal { on_one_line(&path).into_owned() } else { path })
        .map(|path| path + "\n")
        .collect();
    write(&lines)
}

fn write(text: &str) -> Result<(), Problem> {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        result => result.map_err(Problem::usage),
    }
}

/// Standard output, for a text that is written in pieces.
pub(super) fn stdout() -> Printable<Stdout> {
    Printable::new(io::stdout(), OutputStream::Out)
}

/// Standard error, for a text that is written in pieces.
pub(super) fn stderr() -> Printable<io::Stderr> {
    Printable::new(io::stderr(), OutputStream::Err)
}

/// Whether standard error is a terminal that can show a progress bar.
pub(super) fn shows_progress_bar() -> bool {
    io::stderr().is_terminal() && !palette::is_dumb(std::env::var_os("TERM"))
}

/// Prints a message of `clap`: help and version to standard output, errors to standard error. Errors contain
/// words of the command line, so they get Sandmill's escapes and colours.
pub(super) fn usage(error: &clap::Error) -> Exit {
    if error.use_stderr() {
        say(error.render().to_string().trim_end());
        return Exit::Usage;
    }
    // A closed pipe is not an error.
    let _ = error.print();
    Exit::Completed
}

/// From now on, messages of panics are printed like all other text, with escapes.
pub(super) fn watch_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = std::thread::current();
        say(&format!("thread '{}' {panic}", thread.name().unwrap_or("without a name")));
        let trace = Backtrace::capture();
        if trace.status() == BacktraceStatus::Captured {
            say(&trace.to_string());
        }
    }));
}

/// Writes text with control characters escaped, and with colours if they are wanted.
pub(super) struct Printable<W: Write> {
    out: W,
    stream: OutputStream,
    /// An incomplete line.
    line: String,
    /// The first bytes of an incomplete character.
    partial_character: Vec<u8>,
}

impl<W: Write> Printable<W> {
    fn new(out: W, stream: OutputStream) -> Self {
        Self { out, stream, line: String::new(), partial_character: Vec::new() }
    }

    /// Writes the incomplete line.
    fn pass_rest(&mut self) -> io::Result<()> {
        let rest = std::mem::take(&mut self.line);
        self.out.write_all(rest.as_bytes())
    }
}

impl<W: Write> Write for Printable<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut text = std::mem::take(&mut self.partial_character);
        text.extend_from_slice(bytes);
        if let Err(error) = std::str::from_utf8(&text)
            && error.error_len().is_none()
        {
            self.partial_character = text.split_off(error.valid_up_to());
        }
        self.line.push_str(&printable(&String::from_utf8_lossy(&text)));
        let lines = self.line.rfind('\n').map_or(0, |at| at + 1);
        let rest = self.line.split_off(lines);
        let whole = std::mem::replace(&mut self.line, rest);
        if !whole.is_empty() {
            let lines = whole.lines().map(|line| palette::styled(line, self.stream));
            let lines = lines.fold(String::new(), |text, line| text + &line + "\n");
            self.out.write_all(lines.as_bytes())?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.pass_rest()?;
        self.out.flush()
    }
}

impl<W: Write> Drop for Printable<W> {
    fn drop(&mut self) {
        // It is not an error if the reader has closed the pipe.
        let _ = self.pass_rest();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_in_pieces_is_escaped_and_whole() {
        let mut out = Vec::new();
        let mut printable = Printable::new(&mut out, OutputStream::Err);
        for byte in "é\u{9b}2J \u{202e}x\n".bytes() {
            printable.write_all(&[byte]).unwrap();
        }
        // Invalid UTF-8 is written without waiting for more.
        printable.write_all(b"\xFF\x1b[31m").unwrap();
        drop(printable);
        let text = String::from_utf8(out).unwrap();
        assert_eq!(text, "é\\u{9b}2J \\u{202e}x\n\u{fffd}\\u{1b}[31m");
    }

    #[test]
    fn clap_does_not_escape_its_errors() {
        let command = clap::Command::new("x");
        let error = command.try_get_matches_from(["x", "a\u{9b}2J\u{202e}"]).unwrap_err();
        assert!(error.render().to_string().contains('\u{202e}'), "clap escapes it by now");
        assert_eq!(usage(&error), Exit::Usage);
    }
}
