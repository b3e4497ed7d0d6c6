//! Child processes other than workers end when their parent ends.

#![expect(clippy::unwrap_used, reason = "a test that cannot set itself up fails")]

use std::io::{Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Starts a child from a thread. `until_running` waits until the child runs. Then the thread ends, which for
/// the kernel is the death of the child's parent.
fn orphan(arguments: &'static [&str], until_running: fn(&mut Child)) -> Child {
    let start = move || {
        let mut child = Command::new(sandmill_tests::sandmill())
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        until_running(&mut child);
        child
    };
    thread::spawn(start).join().unwrap()
}

fn assert_killed(mut child: Child) {
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_secs(20) {
        if let Some(status) = child.try_wait().unwrap() {
            assert_eq!(status.signal(), Some(9), "{status}");
            return;
        }
        thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("the child outlived its parent");
}

#[test]
fn the_planner_ends_with_its_leader() {
    assert_killed(orphan(&["plan-worker"], |child| {
        // A `PlanRequest`: the version, no sources, `CutOptions::Void` with the largest possible
        // number of mini-batches, no keys, no folder for a shuffle, one process, no wall, no
        // memory, no files to retry, no reports of files, no questions about objects, no deadly
        // files, all mini-batches, no reports of positions, no position to continue from, and no
        // copies of the planner's files in a store.
        const VERSION: u8 = sandmill::protocol::PROTOCOL_VERSION.to_le_bytes()[0];
        let count = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        let request = [
            &[VERSION, 0, 2][..],
            &count,
            &[0, 0, 1, 2, 0, 0, 0, 0, 0],
            &100.0_f64.to_le_bytes(),
            &[0, 0, 0],
        ]
        .concat();
        let frame = [&u32::try_from(request.len()).unwrap().to_le_bytes()[..], &request].concat();
        child.stdin.as_mut().unwrap().write_all(&frame).unwrap();
        // The planner plans until the pipe is full.
        child.stdout.as_mut().unwrap().read_exact(&mut [0; 8]).unwrap();
    }));
}

#[test]
fn a_process_that_groups_rows_ends_with_its_planner() {
    assert_killed(orphan(&["shuffle-worker"], |child| {
        // Writes a frame's length, and more bytes of the frame than a pipe can hold. So when the write
        // returns, the child has begun to read.
        let mut frame = (8_u32 << 20).to_le_bytes().to_vec();
        frame.resize(4 << 20, 0);
        child.stdin.as_mut().unwrap().write_all(&frame).unwrap();
    }));
}

#[test]
fn the_compiler_ends_with_its_leader() {
    assert_killed(orphan(&["compile-component", "required", "compile", "digest"], |child| {
        // Writes more bytes than a pipe can hold. So when the write returns, the compiler has begun to read.
        child.stdin.as_mut().unwrap().write_all(&vec![0; 4 << 20]).unwrap();
    }));
}

/// A program inherits ignored signals. If it inherits SIGCHLD as ignored and leaves it so, it cannot wait for
/// its children.
#[test]
#[cfg(target_os = "linux")]
fn inspect_works_with_sigchld_ignored() {
    let inspected = Command::new("env")
        .arg("--ignore-signal=CHLD")
        .arg(sandmill_tests::sandmill())
        .arg("inspect")
        .arg(sandmill_tests::guest("echo_files"))
        .output()
        .unwrap();
    assert!(inspected.status.success(), "{inspected:?}");
}
