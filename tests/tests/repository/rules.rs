//! `docs/parallel-run-step.md` says what Sandmill does for each rule of ParallelRunStep, and names tests.
//! `docs/security.md` does the same for attacks and limits. These tests check that no rule is missing, and
//! that every named test exists.

#![expect(clippy::unwrap_used, reason = "a test that cannot read the repository fails")]

use sandmill_tests::root;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The groups of rules, and the number of rules in each group.
const GROUPS: [(&str, usize); 13] = [
    ("E", 18),
    ("C", 31),
    ("A", 11),
    ("M", 9),
    ("W", 15),
    ("I", 3),
    ("G", 3),
    ("O", 9),
    ("V", 6),
    ("F", 21),
    ("K", 3),
    ("T", 9),
    ("D", 19),
];

/// What a row says about its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Reproduced,
    Different,
    NotPortable,
}

struct Row {
    verdict: Verdict,
    tests: Vec<String>,
}

/// The rows of the tables of rules, by the rule's id.
fn rows(text: &str) -> BTreeMap<String, Row> {
    let mut rows = BTreeMap::new();
    for line in text.lines() {
        let cells: Vec<&str> =
            line.split(" | ").map(|cell| cell.trim_matches(['|', ' '])).collect();
        let [id, _, behaviour, tests] = cells.as_slice() else { continue };
        let digits = id.trim_start_matches(|c: char| c.is_ascii_uppercase());
        if digits.is_empty() || digits.len() == id.len() || digits.parse::<u32>().is_err() {
            continue;
        }
        let verdict = if behaviour.starts_with("*Different:*") {
            Verdict::Different
        } else if behaviour.starts_with("*Not portable:*") {
            Verdict::NotPortable
        } else {
            assert!(
                !behaviour.starts_with('*'),
                "{id} does not begin with a known word: {behaviour}"
            );
            Verdict::Reproduced
        };
        let tests = tests.split('`').skip(1).step_by(2).map(str::to_owned).collect();
        let before = rows.insert((*id).to_owned(), Row { verdict, tests });
        assert!(before.is_none(), "{id} has two rows");
    }
    rows
}

/// The source folders of the host's crates, without the templates of `sandmill new`, which are guests.
fn host_sources() -> Vec<PathBuf> {
    let host = root().join("host");
    let crates = fs::read_dir(&host).unwrap().map(|entry| entry.unwrap().path().join("src"));
    let is_host = |folder: &PathBuf| folder.is_dir() && !folder.starts_with(host.join("templates"));
    crates.chain([host.join("src")]).filter(is_host).collect()
}

/// Adds the names of all functions in the Rust files below a folder.
fn functions(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && !path.ends_with("target") {
            functions(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let found = text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next());
            names.extend(found.map(str::to_owned));
        }
    }
}

fn document() -> String {
    fs::read_to_string(root().join("docs/parallel-run-step.md")).unwrap()
}

#[test]
fn every_rule_has_a_row_and_a_test_that_exists() {
    let rows = rows(&document());
    let mut known = BTreeSet::new();
    for folder in ["tests/tests", "guest-sdk/src"] {
        functions(&root().join(folder), &mut known);
    }
    host_sources().iter().for_each(|folder| functions(folder, &mut known));
    let mut wrong = Vec::new();
    for (group, count) in GROUPS {
        for number in 1..=count {
            let id = format!("{group}{number}");
            match rows.get(&id) {
                None => wrong.push(format!("{id} has no row")),
                Some(row) if row.tests.is_empty() && row.verdict == Verdict::Reproduced => {
                    wrong.push(format!("{id} names no test"));
                }
                Some(row) => wrong.extend(
                    row.tests
                        .iter()
                        .filter(|test| !known.contains(*test))
                        .map(|test| format!("{id} names the test {test}, which does not exist")),
                ),
            }
        }
    }
    let count: usize = GROUPS.iter().map(|(_, count)| count).sum();
    assert_eq!(rows.len(), count, "rows");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Only these rules may have a verdict other than reproduced.
#[test]
fn no_other_rule_differs() {
    let rows = rows(&document());
    let ids_with = |verdict| -> Vec<&str> {
        let found = rows.iter().filter(|(_, row)| row.verdict == verdict);
        found.map(|(id, _)| id.as_str()).collect()
    };
    assert_eq!(ids_with(Verdict::Different), ["C3", "C4", "M8", "M9"]);
    assert_eq!(ids_with(Verdict::NotPortable), ["E13", "F20"]);
}

#[test]
fn the_document_counts_its_rules_right() {
    let text = document();
    let rows = rows(&text);
    let count = |verdict| rows.values().filter(|row| row.verdict == verdict).count();
    let sentence = format!(
        "{} rules: {} reproduced, {} different on purpose, {} not portable to WebAssembly.",
        rows.len(),
        count(Verdict::Reproduced),
        count(Verdict::Different),
        count(Verdict::NotPortable),
    );
    assert!(text.contains(&sentence), "the document should say: {sentence}");
}

/// The file of end-to-end tests with this name, in any folder.
fn test_file(name: &str) -> Option<PathBuf> {
    let folders = fs::read_dir(root().join("tests/tests")).unwrap();
    let mut files = folders.map(|folder| folder.unwrap().path().join(format!("{name}.rs")));
    files.find(|file| file.is_file())
}

/// Whether a name in the table of attacks refers to tests: it is a file of end-to-end tests, one test in such
/// a file, a module of the host, or a function.
fn is_test(name: &str, known: &BTreeSet<String>) -> bool {
    let file = |path: String| root().join(path).is_file();
    let Some((first, last)) = name.rsplit_once("::") else {
        return known.contains(name) || test_file(name).is_some();
    };
    let text = test_file(first).map(|file| fs::read_to_string(file).unwrap()).unwrap_or_default();
    let module = name.replace("::", "/");
    // A module of any crate, or of the crate that the first part names.
    let file_of_crate =
        module.split_once('/').map(|(first, rest)| format!("host/{first}/src/{rest}.rs"));
    text.contains(&format!("fn {last}()"))
        || file_of_crate.is_some_and(file)
        || host_sources().iter().any(|folder| folder.join(format!("{module}.rs")).is_file())
}

#[test]
fn every_attack_names_tests_that_exist() {
    let text = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let (_, attacks) = text.split_once("\n## Attacks").unwrap();
    let (attacks, _) = attacks.split_once("\n### Fuzzing").unwrap();
    let mut known = BTreeSet::new();
    functions(&root().join("tests/tests"), &mut known);
    host_sources().iter().for_each(|folder| functions(folder, &mut known));
    let mut wrong = Vec::new();
    let mut count = 0;
    for section in attacks.split("\n### ").skip(1) {
        // If one test covers all attacks of a section, the section names the test before the table.
        let shared_test = section
            .split_once("One test covers all rows of this table: `")
            .and_then(|(_, rest)| rest.split_once('`'));
        for line in section.lines().filter(|line| line.starts_with("| ")).skip(1) {
            count += 1;
            let cell = line.trim_matches(['|', ' ']).rsplit(" | ").next().unwrap_or_default();
            let own_tests = cell.split('`').skip(1).step_by(2);
            let tests: Vec<&str> =
                shared_test.map_or_else(|| own_tests.collect(), |(test, _)| vec![test]);
            if tests.is_empty() || tests.iter().any(|test| !is_test(test, &known)) {
                wrong.push(format!("{tests:?}: {line}"));
            }
        }
    }
    assert!(count >= 120, "{count} attacks");
    assert!(wrong.is_empty(), "no such tests:\n{}", wrong.join("\n"));
}

#[test]
fn every_limit_names_the_file_that_enforces_it_and_a_test_that_exists() {
    let text = fs::read_to_string(root().join("docs/security.md")).unwrap();
    let (_, limits) = text.split_once("<!-- begin: limits -->").unwrap();
    let (limits, _) = limits.split_once("<!-- end: limits -->").unwrap();
    let mut known = BTreeSet::new();
    functions(&root().join("tests/tests"), &mut known);
    host_sources().iter().for_each(|folder| functions(folder, &mut known));
    let mut count = 0;
    for line in limits.lines().filter(|line| line.starts_with("| `")) {
        count += 1;
        let cells: Vec<&str> = line.split('`').skip(1).step_by(2).collect();
        let (Some(limit), [.., file, test]) = (cells.first(), cells.as_slice()) else {
            panic!("{line} has no file and no test");
        };
        let name = limit.trim_start_matches("limits.");
        let source = fs::read_to_string(root().join(file));
        let source =
            source.unwrap_or_else(|error| panic!("{file}, which must enforce {limit}: {error}"));
        assert!(source.contains(name), "{file} does not mention {limit}");
        assert!(is_test(test, &known), "there is no test {test}, which must check {limit}");
    }
    assert!(count >= 17, "{count} limits");
}
