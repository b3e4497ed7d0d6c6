//! How to resume a job that did not complete. The command in the advice must work as written.

/// What can resume the job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resume {
    /// `sandmill resume`, with these options and their values, which the job directory does not store.
    ByCommand(Vec<String>),
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

impl Resume {
    /// How to resume a job that was begun with this command line. `has_job_file`: whether its directory
    /// names a job file.
    pub fn for_command(command: &[String], has_job_file: bool) -> Self {
        if !has_job_file {
            return Self::ByProgram;
        }
        let mut options = Vec::new();
        let mut words = command.iter().take_while(|word| *word != "--");
        while let Some(word) = words.next() {
            let name = word.split_once('=').map_or(word.as_str(), |(name, _)| name);
            if !OUTSIDE_OPTIONS.contains(&name) {
                continue;
            }
            options.push(word.clone());
            if !word.contains('=') {
                options.extend(words.next().cloned());
            }
        }
        Self::ByCommand(options)
    }

    /// The command, as the end of a sentence. `job` is the job directory as written on a command line. `set`
    /// is a setting to be changed, such as `error_threshold=N`, or empty.
    pub fn advice(&self, job: &str, set: &str) -> String {
        match self {
            Self::ByCommand(options) => {
                let set = if set.is_empty() { String::new() } else { format!(" --set {set}") };
                let options =
                    options.iter().map(|word| format!(" {}", crate::model::shell_word(word)));
                format!("sandmill resume {job}{set}{}", options.collect::<String>())
            }
            Self::ByProgram => {
                let set = if set.is_empty() { String::new() } else { format!(", with {set}") };
                format!("run it again with the program that started it{set}")
            }
        }
    }
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
        insta::assert_snapshot!(describe("", false), @"run it again with the program that started it, with error_threshold=N");
    }
}
