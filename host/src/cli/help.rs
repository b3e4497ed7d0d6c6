//! The examples in the help of each command, and suggestions for a command that does not exist.

use crate::model::nearest;
use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// An example of each command, as typed, and its page of the documentation.
const EXAMPLES: &[(&str, &str, &str)] = &[
    ("run", "sandmill run job.yaml --set mini_batch_size=100", "tutorial.md"),
    ("resume", "sandmill resume nightly --set error_threshold=-1", "troubleshooting.md"),
    ("node", "sandmill node --broker nats://broker:4222", "nodes.md"),
    #[cfg(feature = "server")]
    (
        "serve",
        "sandmill serve --state /var/lib/sandmill --policy /etc/sandmill/policy.yaml",
        "server.md",
    ),
    #[cfg(feature = "server")]
    ("portal", "sandmill portal nightly", "server.md"),
    #[cfg(feature = "server")]
    (
        "submit",
        "sandmill submit job.yaml --component score.wasm --server https://jobs.example:8470",
        "server.md",
    ),
    #[cfg(feature = "server")]
    ("pause", "sandmill pause 06h2g1cqn0ght2dssqbxwrt9", "server.md"),
    ("plan", "sandmill plan job.yaml", "job-file.md"),
    ("status", "sandmill status nightly --watch", "troubleshooting.md"),
    ("jobs", "sandmill jobs --root /srv/jobs --state running", "operators.md"),
    ("cancel", "sandmill cancel nightly --wait", "operators.md"),
    ("clean", "sandmill clean --older-than 30d --dry-run", "operators.md"),
    ("cache", "sandmill cache clear compiled", "operators.md"),
    ("metrics", "sandmill metrics --root /srv/jobs", "operators.md"),
    ("usage", "sandmill usage --by month /srv/jobs", "usage.md"),
    ("logs", "sandmill logs nightly --follow", "log-tree.md"),
    ("explain", "sandmill explain nightly", "troubleshooting.md"),
    ("dataset", "sandmill dataset register --help", "registry.md"),
    ("model", "sandmill model list", "registry.md"),
    ("signer", "sandmill signer new nightly.key", "nodes.md"),
    ("build", "sandmill build my-script", "entry-scripts.md"),
    ("python", "sandmill python install light", "entry-scripts.md"),
    ("javascript", "sandmill javascript install", "entry-scripts.md"),
    ("check", "sandmill check my-script --run data/a.txt", "entry-scripts.md"),
    (
        "map",
        "sandmill map score.py --timeout 10 < table.arrows > scores.arrows",
        "python-package.md",
    ),
    ("doctor", "sandmill doctor", "operators.md"),
    ("inspect", "sandmill inspect score.wasm", "security.md"),
    ("new", "sandmill new my-script", "tutorial.md"),
    ("version", "sandmill version --json", "upgrading.md"),
    (
        "completions",
        "sandmill completions bash > ~/.local/share/bash-completion/completions/sandmill",
        "operators.md",
    ),
    ("man", "sandmill man ~/.local/share/man/man1", "operators.md"),
];

/// The commands of other tools that users may type, and the equivalents here.
const COMMANDS_OF_OTHER_TOOLS: [(&str, &str); 18] = [
    ("ls", "jobs"),
    ("list", "jobs"),
    ("ps", "jobs"),
    ("rm", "clean"),
    ("remove", "clean"),
    ("prune", "clean"),
    ("delete", "clean"),
    ("kill", "cancel"),
    ("stop", "cancel"),
    ("abort", "cancel"),
    ("init", "new"),
    ("create", "new"),
    ("start", "run"),
    ("retry", "resume"),
    ("continue", "resume"),
    ("log", "logs"),
    ("validate", "plan"),
    ("compile", "build"),
];

/// The command line with its examples.
pub(super) fn with_examples(command: Command) -> Command {
    EXAMPLES.iter().fold(command, |command, (name, example, page)| {
        command.mut_subcommand(name, |command| {
            command.after_help(format!("Example:\n  {example}\n\nMore: docs/{page}"))
        })
    })
}

/// Additional advice about a wrong command line, after the message of `clap`.
pub(super) fn advice(error: &clap::Error, command: &Command) -> Option<String> {
    match (error.kind(), error.get(ContextKind::InvalidSubcommand)) {
        (ErrorKind::InvalidSubcommand, Some(ContextValue::String(typed))) => {
            Some(suggestion(typed, command))
        }
        _ => None,
    }
}

fn suggestion(typed: &str, command: &Command) -> String {
    let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
    let other =
        COMMANDS_OF_OTHER_TOOLS.iter().find(|(other, _)| *other == typed).map(|(_, name)| *name);
    // `nearest` also recognizes two swapped letters, even in a word of three letters (`rnu`).
    let meant = other.or_else(|| nearest(typed, names.iter().copied()));
    match meant {
        Some(name) => format!("did you mean sandmill {name}? sandmill --help lists all commands"),
        None => format!("the commands are {}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Cli;
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn every_command_has_an_example_that_parses() {
        let command = with_examples(Cli::command());
        let names: Vec<&str> = command.get_subcommands().map(Command::get_name).collect();
        let examples: Vec<_> = EXAMPLES.iter().map(|(name, ..)| *name).collect();
        assert_eq!(names, examples, "in the order of the help");
        for (name, example, page) in EXAMPLES {
            let words = example.split(['<', '>']).next().unwrap_or_default().split_whitespace();
            if let Err(error) = command.clone().try_get_matches_from(words) {
                assert_eq!(error.kind(), ErrorKind::DisplayHelp, "{name}: {error}");
            }
            let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs");
            assert!(docs.join(page).is_file(), "{name}: there is no page {page}");
        }
    }

    #[test]
    fn commands_of_other_tools_are_known() {
        let command = Cli::command();
        for (typed, name) in COMMANDS_OF_OTHER_TOOLS {
            assert!(command.find_subcommand(typed).is_none(), "{typed} is a command");
            assert!(command.find_subcommand(name).is_some(), "{name}");
        }
        let reported = ["rnu", "list", "kill"].map(|typed| suggestion(typed, &command));
        insta::assert_snapshot!(reported.join("\n"), @"
        did you mean sandmill run? sandmill --help lists all commands
        did you mean sandmill jobs? sandmill --help lists all commands
        did you mean sandmill cancel? sandmill --help lists all commands
        ");
        // Which commands there are depends on the features of this build.
        let all = suggestion("nothing-like-it", &command);
        assert!(all.starts_with("the commands are run, resume, node, "), "{all}");
        assert!(all.contains(", plan, status, jobs, ") && all.ends_with(", man"), "{all}");
    }
}
