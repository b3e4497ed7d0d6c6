//! How to resume a job that did not complete. The command in the advice must work as written.

use std::path::Path;

/// What can resume the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// `sandmill resume`, with these options and their values, which the job directory does not store.
    ByCommand(Vec<String>),
    /// `sandmill run`, with these words: the job file and options. The job directory is on another machine.
    ByRun(Vec<String>),
    /// The program that began the job through the library: only it knows the whole job.
    ByProgram,
}

impl Default for Resume {
    fn default() -> Self {
        Self::ByCommand(Vec::new())
    }
}

/// Options of `run` and `resume` that name files outside the job. The job directory does not store them.
const OUTSIDE_OPTIONS: [&str; 4] = ["--datastores", "--policy", "--onnxruntime", "--cache-dir"];
/// Options of `run` and `resume` for jobs on several machines.
const BROKER_OPTIONS: [&str; 4] =
    ["--broker", "--broker-credentials", "--broker-ca", "--signing-key"];
/// Options of `run` that another machine needs, too.
const SHARED_OPTIONS: [&str; 4] =
    ["--broker", "--broker-credentials", "--broker-ca", "--datastores"];

impl Resume {
    /// How to resume a job that was begun with this command line. `has_job_file`: whether its directory
    /// names a job file.
    pub fn for_command(command: &[String], has_job_file: bool) -> Self {
        if !has_job_file {
            return Self::ByProgram;
        }
        let mut options = options_in(command, &OUTSIDE_OPTIONS);
        BROKER_OPTIONS.iter().for_each(|name| options.extend(without_secrets(command, name)));
        Self::ByCommand(options)
    }

    /// How to resume a job on another machine. The job was begun with this command line, from this job file, and with
    /// these settings in addition to the file.
    pub fn elsewhere(command: &[String], job_file: &Path, settings: &[(String, String)]) -> Self {
        let mut words = vec![job_file.display().to_string()];
        for (key, value) in settings {
            words.extend(["--set".to_owned(), format!("{key}={value}")]);
        }
        for name in SHARED_OPTIONS {
            words.extend(without_secrets(command, name));
        }
        Self::ByRun(words)
    }

    /// The command, as the end of a sentence. `job` is the job directory as written on a command line. `set`
    /// is a setting to be changed, such as `error_threshold=N`, or empty.
    pub fn advice(&self, job: &str, set: &str) -> String {
        match self {
            Self::ByCommand(options) => {
                let set = if set.is_empty() { String::new() } else { format!(" --set {set}") };
                format!("sandmill resume {job}{set}{}", shell_words(options))
            }
            Self::ByRun(words) => {
                let set = if set.is_empty() { String::new() } else { format!(" --set {set}") };
                format!("sandmill run{}{set}", shell_words(words))
            }
            Self::ByProgram => {
                let set = if set.is_empty() { String::new() } else { format!(", with {set}") };
                format!("run it again with the program that started it{set}")
            }
        }
    }
}

/// An option of a command line, with its value. Without it, if it is a URL that may have a password, which the advice
/// must not show.
fn without_secrets(command: &[String], name: &str) -> Vec<String> {
    let option = options_in(command, &[name]);
    if option.iter().any(|word| word.contains('@')) { Vec::new() } else { option }
}

/// The options of a command line that have one of these names, with their values.
fn options_in(command: &[String], names: &[&str]) -> Vec<String> {
    let mut options = Vec::new();
    let mut words = command.iter().take_while(|word| *word != "--");
    while let Some(word) = words.next() {
        let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
        if !names.contains(&name) {
            continue;
        }
        options.push(word.clone());
        if !word.contains('=') {
            options.extend(words.next().cloned());
        }
    }
    options
}

/// The words as written on a command line, each after a space.
fn shell_words(words: &[String]) -> String {
    words.iter().map(|word| format!(" {}", crate::model::shell_word(word))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_outside_the_job_directory_are_repeated() {
        let describe = |command: &str, has_job_file: bool| {
            let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
            Resume::for_command(&words, has_job_file).advice("jobs/a", "error_threshold=N")
        };
        let command =
            "sandmill run a.yaml --datastores s.yaml --set x=1 --policy=p.yaml --overwrite";
        insta::assert_snapshot!(describe(command, true), @"sandmill resume jobs/a --set error_threshold=N --datastores s.yaml '--policy=p.yaml'");
        insta::assert_snapshot!(describe("sandmill run a.yaml -- --policy x", true), @"sandmill resume jobs/a --set error_threshold=N");
        insta::assert_snapshot!(describe("sandmill run a.yaml --broker nats://b:4222 --broker-ca c", true), @"sandmill resume jobs/a --set error_threshold=N --broker nats://b:4222 --broker-ca c");
        insta::assert_snapshot!(describe("sandmill run a.yaml --broker nats://a:b@c", true), @"sandmill resume jobs/a --set error_threshold=N");
        let elsewhere = |command: &str| {
            let words: Vec<_> = command.split(' ').map(str::to_owned).collect();
            let settings = [("arguments".to_owned(), "[-x, 1]".to_owned())];
            Resume::elsewhere(&words, "/jobs/a.yaml".as_ref(), &settings).advice("a", "x=1")
        };
        insta::assert_snapshot!(elsewhere("sandmill run a.yaml --broker nats://b:4222 --json"), @"sandmill run /jobs/a.yaml --set 'arguments=[-x, 1]' --broker nats://b:4222 --set x=1");
        insta::assert_snapshot!(elsewhere("sandmill run a.yaml --broker nats://a:b@c --datastores /d.yaml"), @"sandmill run /jobs/a.yaml --set 'arguments=[-x, 1]' --datastores /d.yaml --set x=1");
        insta::assert_snapshot!(describe("", false), @"run it again with the program that started it, with error_threshold=N");
    }
}
