//! How a process behind the wall ended, in words.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

/// How a process ended, in words that follow its name: `was killed (signal 9; ...)`. Names the limit if
/// a limit may have ended the process.
pub fn death(status: ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("ended with exit code {code}"),
        (None, Some(libc::SIGKILL)) => {
            "was killed (signal 9; the machine may have run out of memory)".to_owned()
        }
        (None, Some(libc::SIGSYS)) => {
            "was ended by the system-call filter (SIGSYS): it made a system call that it \
             does not need"
                .to_owned()
        }
        (None, Some(libc::SIGXCPU)) => {
            "was ended by its limit of processor time (SIGXCPU)".to_owned()
        }
        (None, Some(libc::SIGXFSZ)) => {
            "was ended because it wrote a larger file than allowed (SIGXFSZ)".to_owned()
        }
        (None, Some(libc::SIGABRT)) => {
            "aborted (SIGABRT; it may have run out of its allowed memory)".to_owned()
        }
        (None, Some(signal)) => format!("was ended by signal {signal}"),
        (None, None) => "ended".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_of_limits_are_explained() {
        let describe = |raw| death(ExitStatus::from_raw(raw));
        assert_eq!(describe(3 << 8), "ended with exit code 3");
        for (signal, word) in [
            (libc::SIGKILL, "was killed"),
            (libc::SIGSYS, "system-call filter"),
            (libc::SIGXCPU, "processor time"),
            (libc::SIGXFSZ, "larger file"),
            (libc::SIGABRT, "memory"),
            (libc::SIGSEGV, "signal 11"),
        ] {
            assert!(describe(signal).contains(word), "{}", describe(signal));
        }
    }
}
