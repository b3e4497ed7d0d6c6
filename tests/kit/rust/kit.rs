//! The conformance kit's script in Rust, with wit-bindgen: see ../README.md.

mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "entry-script",
        generate_all,
    });
}

use bindings::exports::sandmill::entry::entry::Guest;
use bindings::sandmill::entry::host::{self, LogLevel};
use bindings::sandmill::entry::types::{MiniBatch, MiniBatchContext, Results};
use std::hash::{BuildHasher, RandomState};
use std::io::Write;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{SystemTime, UNIX_EPOCH};
use std::{env, fs};

struct Kit;

static INITS: AtomicU32 = AtomicU32::new(0);
static RUNS: AtomicU32 = AtomicU32::new(0);

impl Guest for Kit {
    fn init() -> Result<(), String> {
        INITS.fetch_add(1, Relaxed);
        match env::args().nth(1).as_deref() {
            Some("fail-init") => Err(env::args().nth(2).unwrap_or_default()),
            _ => Ok(()),
        }
    }

    fn run(batch: MiniBatch, context: MiniBatchContext) -> Result<Results, String> {
        RUNS.fetch_add(1, Relaxed);
        let text = match &batch {
            MiniBatch::Files(files) => fs::read_to_string(&files[0]).map_err(to_text)?,
            _ => env::args().nth(1).ok_or("there is no command")?,
        };
        let parts: Vec<&str> = text.split('\u{1f}').collect();
        let results = match (parts[0], batch) {
            ("table", MiniBatch::Table(ipc)) => Results::Table(ipc),
            ("items", MiniBatch::Files(files)) => Results::Rows(files),
            ("outcomes", _) => outcomes(&parts[1..]),
            ("context", _) => Results::Rows(context_rows(context)),
            (command, _) => Results::Rows(rows(command, &parts[1..])?),
        };
        // Rust's standard library buffers an unfinished line, so flush it, as sandmill-guest does.
        std::io::stdout().flush().map_err(to_text)?;
        Ok(results)
    }

    fn shutdown() {
        if env::args().nth(1).as_deref() == Some("shutdown") {
            let path = format!("{}/kit.txt", host::output_dir());
            let mut file = fs::OpenOptions::new().append(true).create(true).open(path).unwrap();
            file.write_all(b"shutdown").unwrap();
        }
    }
}

fn rows(command: &str, parts: &[&str]) -> Result<Vec<String>, String> {
    let row = match (command, parts) {
        ("kit", _) => "sandmill kit 1".to_owned(),
        ("count", _) => format!("{} {}", INITS.load(Relaxed), RUNS.load(Relaxed)),
        ("arguments", _) => return Ok(env::args().skip(1).collect()),
        ("environment", _) => {
            let mut rows: Vec<String> =
                env::vars().map(|(name, value)| format!("{name}={value}")).collect();
            rows.sort();
            return Ok(rows);
        }
        ("host", _) => return Ok(vec![host::agent_name(), host::log_dir(), host::output_dir()]),
        ("rows", rows) => return Ok(rows.iter().map(|&row| row.to_owned()).collect()),
        ("read", [path]) => length_and_sum(&host::read(path)?),
        ("open", [path]) => length_and_sum(&fs::read(path).map_err(to_text)?),
        ("write", [path, text]) => fs::write(path, text).map_err(to_text).map(done)?,
        ("error", [text]) => return Err((*text).to_owned()),
        ("trap", _) => panic!("as the kit asked"),
        ("exit", [code]) => std::process::exit(code.parse().unwrap_or(2)),
        ("loop", _) => loop {
            std::hint::spin_loop();
        },
        ("allocate", _) => allocate(),
        ("log", [level, text]) => {
            host::log(level_of(level), text);
            done(())
        }
        ("print", [text]) => write!(std::io::stdout(), "{text}").map_err(to_text).map(done)?,
        ("complain", [text]) => write!(std::io::stderr(), "{text}").map_err(to_text).map(done)?,
        ("random", _) => format!("{:016x}", RandomState::new().hash_one("kit")),
        ("logging-level", _) => level_name(host::logging_level()).to_owned(),
        ("clock", _) => {
            SystemTime::now().duration_since(UNIX_EPOCH).map_err(to_text)?.as_secs().to_string()
        }
        _ => return Err(format!("there is no command {command} with {} parts", parts.len())),
    };
    Ok(vec![row])
}

fn outcomes(parts: &[&str]) -> Results {
    let outcome = |part: &&str| match part.strip_prefix('+') {
        Some(row) => Ok(row.to_owned()),
        None => Err(part[1..].to_owned()),
    };
    Results::Outcomes(parts.iter().map(outcome).collect())
}

fn context_rows(context: MiniBatchContext) -> Vec<String> {
    let keys = context.partition_key_value.into_iter().map(|(key, value)| format!("{key}={value}"));
    [context.id.to_string(), context.dataset, context.attempt.to_string()]
        .into_iter()
        .chain(keys)
        .collect()
}

fn length_and_sum(bytes: &[u8]) -> String {
    format!("{} {}", bytes.len(), bytes.iter().map(|&byte| u64::from(byte)).sum::<u64>())
}

fn allocate() -> String {
    let mut held = Vec::new();
    loop {
        held.push(vec![1_u8; 1 << 20]);
        std::hint::black_box(&held);
    }
}

fn level_name(level: LogLevel) -> &'static str {
    match level {
        LogLevel::Error => "error",
        LogLevel::Warning => "warning",
        LogLevel::Info => "info",
        LogLevel::Debug => "debug",
    }
}

fn level_of(word: &str) -> LogLevel {
    match word {
        "error" => LogLevel::Error,
        "warning" => LogLevel::Warning,
        "info" => LogLevel::Info,
        _ => LogLevel::Debug,
    }
}

fn to_text(error: impl ToString) -> String {
    error.to_string()
}

/// The row of commands without a result.
fn done(_: ()) -> String {
    "done".to_owned()
}

bindings::export!(Kit with_types_in bindings);
