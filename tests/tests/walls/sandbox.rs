//! Hostile entry scripts and their writable folders.

use sandmill_tests::{Ran, TestJob, guest};
use std::fs;

/// Runs three mini-batches one after the other in one worker, with the guest `misuses_folders`.
fn misuse(harm: &str, arguments: &[&str]) -> Ran {
    TestJob::new(&guest("misuses_folders"))
        .yaml(&format!("arguments: [--do, {harm}, --target, ../../../../../victim.txt]"))
        .yaml("inputs: {texts: in}\nmini_batch_size: 1\nprocess_count_per_node: 1")
        .file("in/a.txt", "")
        .file("in/b.txt", "")
        .file("in/c.txt", "")
        .file("victim.txt", "mine")
        .watched()
        .run(arguments)
}

#[test]
fn guests_cannot_make_links() {
    let ran = misuse("link", &[]);
    ran.exits_with(0).left_nothing();
    let stdout = ran.log("user/stdout/0/process000.stdout.txt");
    assert_eq!(stdout, "Operation not permitted (os error 63)\n".repeat(4));
    for folder in ["job/logs/user/entry_script_log/0/files", "job/output"] {
        let link = ran.dir().join(folder).join("link");
        assert!(fs::symlink_metadata(link).is_err(), "a link in {folder}\n{ran}");
    }
}

#[test]
fn a_published_file_is_not_the_one_left_open() {
    let ran = misuse("keep", &[]);
    ran.exits_with(0).left_nothing();
    assert_eq!(ran.text("job/output/kept-0.txt"), "of 0\n");
    assert_eq!(ran.text("job/output/made/2.txt"), "whole");
}

#[test]
fn changed_files_of_init_are_made_again() {
    for (harm, word) in
        [("change", "run changed /output/labels"), ("remove", "run removed /output/made")]
    {
        // The first attempt fails, but the second attempt and the other mini-batches succeed.
        let ran = misuse(harm, &[]);
        ran.exits_with(0).left_nothing();
        assert!(ran.log("user/error.txt").contains(word), "{ran}");
        assert_eq!(ran.sorted_output(), ["a.txt", "b.txt", "c.txt"]);
        assert_eq!(ran.text("job/output/made/0.txt"), "whole");
        // The file of `init` is published at the end, with the content from `init`.
        assert_eq!(ran.text("job/output/labels"), "cat dog");
    }
}

#[test]
fn endless_folders_fail_one_attempt() {
    let ran = misuse("deep", &[]);
    ran.exits_with(0).left_nothing();
    assert!(ran.log("user/error.txt").contains("bad_output: the output"), "{ran}");
    assert_eq!(ran.sorted_output(), ["a.txt", "b.txt", "c.txt"]);
    assert!(!ran.has("job/work"));
}

#[test]
fn an_endless_file_is_an_error_of_the_script() {
    // The job's limit stops the guest, or if that limit is higher, the limit of the process.
    for (settings, kind) in [
        (&[][..], "over_limit: limits.output allows 16 GB"),
        (&["--set", "limits.output=1000 GB"], "script_error"),
    ] {
        let ran = misuse("huge", settings);
        ran.exits_with(0);
        assert!(ran.log("user/error.txt").contains(kind), "{ran}");
        assert!(!ran.has("job/output/huge"));
    }
}

#[test]
fn a_glob_matches_links_below_its_folder() {
    let job = TestJob::new(&guest("echo_files"))
        .yaml("inputs: {texts: 'in/*.txt'}")
        .file("in/a.txt", "1")
        .file("in/data/b.bin", "22");
    std::os::unix::fs::symlink("data/b.bin", job.path("in/b.txt")).unwrap();
    let ran = job.run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.sorted_output(), ["a.txt: 1", "b.txt: 2"]);
}
