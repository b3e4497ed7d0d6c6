//! Prints the output of entry scripts of a server's job.

use super::super::exit::{Exit, Problem};
use super::super::say;
use super::super::terminal::print;
use super::client::ServerClient;
use super::jobs::{id_of, wait_for_end};
use crate::report::LOG_FOLDERS;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The pause between two looks at the files.
const INTERVAL: Duration = Duration::from_secs(1);
/// The bytes that are asked for at once.
const PIECE: u64 = 1 << 20;

/// Prints the output of all workers, or of one, and follows it until the job has ended.
pub(in crate::cli) fn logs(
    server: &ServerClient,
    job: Option<&Path>,
    worker: Option<&str>,
    follow: bool,
) -> Result<Exit, Problem> {
    let id = id_of(job)?;
    let mut printed: BTreeMap<String, u64> = BTreeMap::new();
    let mut was_paused = false;
    loop {
        // The job is asked for first, so that everything that it has written is printed.
        let job = server.get(&format!("/v1/jobs/{id}"))?;
        let has_ended = ["completed", "failed", "cancelled"].map(Value::from);
        let has_ended = has_ended.contains(&job["phase"]);
        let listed = server.get(&format!("/v1/jobs/{id}/logs"))?;
        for file in listed["items"].as_array().into_iter().flatten() {
            let (Some(path), Some(bytes)) = (file["path"].as_str(), file["bytes"].as_u64()) else {
                continue;
            };
            if is_wanted(path, worker) {
                let from = printed.entry(path.to_owned()).or_default();
                print_from(server, &id, path, (from, bytes))?;
            }
        }
        if !follow {
            return Ok(Exit::Completed);
        }
        let is_paused = job["phase"] == "paused";
        if is_paused && !was_paused {
            say("the job is paused; its output follows when it goes on");
        }
        was_paused = is_paused;
        if has_ended {
            return wait_for_end(server, &id);
        }
        sleep(INTERVAL);
    }
}

/// Whether a file has the output of an entry script, on this worker if one is named.
fn is_wanted(path: &str, worker: Option<&str>) -> bool {
    let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
    let of_folder = |(inside, suffix): &(&str, &str)| {
        folder.starts_with(&format!("{inside}/")) && name.ends_with(suffix)
    };
    let stem = name.split('.').next().unwrap_or_default();
    LOG_FOLDERS.iter().any(of_folder) && worker.is_none_or(|worker| worker == stem)
}

/// Prints the rest of a file, and notes how much of it was printed.
fn print_from(
    server: &ServerClient,
    id: &str,
    path: &str,
    (from, length): (&mut u64, u64),
) -> Result<(), Problem> {
    if *from < length {
        print(&format!("==> logs/{path} <==\n"))?;
    }
    while *from < length {
        let range = format!("bytes={from}-{}", *from + PIECE - 1);
        let headers = [("range", range.as_str())];
        let answer = server.send("GET", &format!("/v1/jobs/{id}/logs/{path}"), &headers, &[])?;
        if answer.status != 206 || answer.bytes.is_empty() {
            break;
        }
        let whole = whole_characters(&answer.bytes, *from + answer.bytes.len() as u64 >= length);
        *from += whole.len() as u64;
        print(&String::from_utf8_lossy(whole))?;
    }
    Ok(())
}

/// The bytes without a character of which only a part has come. If they are the last ones, all of them.
fn whole_characters(bytes: &[u8], are_last: bool) -> &[u8] {
    match std::str::from_utf8(bytes) {
        Err(error) if error.error_len().is_none() && error.valid_up_to() > 0 && !are_last => {
            &bytes[..error.valid_up_to()]
        }
        _ => bytes,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_character_is_not_cut() {
        let text = "aé".as_bytes();
        assert_eq!(whole_characters(&text[..2], false), b"a");
        assert_eq!(whole_characters(&text[..2], true), &text[..2]);
        assert_eq!(whole_characters(text, false), text);
        assert_eq!(whole_characters(b"\xff\xffa", false), b"\xff\xffa");
    }

    #[test]
    fn only_the_output_of_entry_scripts_is_printed() {
        assert!(is_wanted("user/stdout/0/process000.stdout.txt", Some("process000")));
        assert!(!is_wanted("user/stdout/0/process001.stdout.txt", Some("process000")));
        assert!(!is_wanted("sys/node/0/process000.txt", None));
    }
}
