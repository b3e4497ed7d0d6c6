//! The ways to misbehave: the values of `--do WHAT`. The value `pause` does no harm, but takes a second. With
//! `--nap MILLISECONDS`, each call of `run` first sleeps that long.

use sandmill_guest::{Context, Job, MiniBatchContext, Result, Results};
use std::hint::black_box;

/// The harm that a guest was asked to do, and when.
pub struct Harm {
    what: String,
    /// The attempt in which the guest misbehaves; `None` means every attempt.
    attempt: Option<u32>,
    /// The mini-batch in which the guest misbehaves; `None` means every mini-batch.
    batch: Option<u64>,
    nap: std::time::Duration,
}

impl Harm {
    /// Reads `--do WHAT`, `--on-attempt N`, `--on-batch N` and `--nap MILLISECONDS`.
    pub fn from_arguments(job: &Job) -> Result<Self> {
        let number = |name| job.argument(name).map(|n| n.parse::<u64>().context(name)).transpose();
        Ok(Harm {
            what: job.argument("--do").context("--do WHAT is missing")?.to_owned(),
            attempt: number("--on-attempt")?.and_then(|n| u32::try_from(n).ok()),
            batch: number("--on-batch")?,
            nap: std::time::Duration::from_millis(number("--nap")?.unwrap_or(0)),
        })
    }

    /// Misbehaves in `run` if this is the chosen attempt and mini-batch. Returns `None` if the guest should
    /// continue as an ordinary guest.
    pub fn run(&self, context: &MiniBatchContext, items: usize) -> Option<Result<Results>> {
        std::thread::sleep(self.nap);
        let is_due = self.attempt.is_none_or(|n| n == context.attempt)
            && self.batch.is_none_or(|n| n == context.id);
        if is_due && self.what == "pause" {
            std::thread::sleep(std::time::Duration::from_secs(1));
            return None;
        }
        is_due.then(|| harm(&self.what, items))
    }

    /// Misbehaves in `init` or `shutdown`, which have no attempt and no mini-batch to choose.
    pub fn init(&self) -> Result<()> {
        harm(&self.what, 0).map(drop)
    }
}

fn harm(what: &str, items: usize) -> Result<Results> {
    match what {
        "panic" => panic!("this guest panics, as asked"),
        "error" => Err("this guest fails, as asked".into()),
        "trap" => trap(),
        "exit-0" => std::process::exit(0),
        "exit-3" => std::process::exit(3),
        "abort" => std::process::abort(),
        "return-nothing" => Ok(Results::rows::<String>([])),
        "return-too-few" => Ok(Results::rows((1..items).map(|i| format!("row {i}")))),
        "return-too-many" => Ok(Results::rows((0..items + 5).map(|i| format!("row {i}")))),
        "outcomes-too-few" => Ok(outcomes(items.saturating_sub(1))),
        "outcomes-too-many" => Ok(outcomes(items + 5)),
        "rows-with-line-ends" => {
            Ok(Results::rows((0..items).map(|i| format!("row {i}\nforged\r\n"))))
        }
        // One row of 64 MiB for each item.
        "huge-rows" => Ok(Results::rows((0..items).map(|_| "x".repeat(64 << 20)))),
        "many-rows" => Ok(Results::rows((0..20_000_000).map(|_| String::new()))),
        "huge-error" => Err("e".repeat(64 << 20).into()),
        "allocate" => allocate(),
        "loop" => spin(),
        "sleep" => loop {
            std::thread::sleep(std::time::Duration::from_secs(3600));
        },
        "recurse" => Ok(Results::rows([recurse(0).to_string()])),
        "out-of-bounds" => out_of_bounds(),
        other => Err(format!("--do {other}: unknown value").into()),
    }
}

fn outcomes(count: usize) -> Results {
    Results::outcomes((0..count).map(|i| Ok::<_, String>(format!("row {i}"))))
}

/// Allocates without end, and never frees.
fn allocate() -> ! {
    let mut kept: Vec<Vec<u8>> = Vec::new();
    loop {
        kept.push(black_box(vec![1; 1 << 20]));
    }
}

fn spin() -> ! {
    let mut number: u64 = 0;
    loop {
        number = black_box(number.wrapping_add(1));
    }
}

#[expect(unconditional_recursion, reason = "the guest is asked to recurse without end")]
fn recurse(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    recurse(depth + 1) + frame[(depth % 64) as usize]
}

#[cfg(target_arch = "wasm32")]
fn trap() -> ! {
    core::arch::wasm32::unreachable()
}

#[cfg(not(target_arch = "wasm32"))]
fn trap() -> ! {
    std::process::abort()
}

/// Reads far outside the allocated memory.
fn out_of_bounds() -> Result<Results> {
    let far = black_box(0xffff_fff0_usize) as *const u64;
    // SAFETY: none, on purpose. The address is outside the memory, and the sandbox must stop the access.
    let value = unsafe { far.read_volatile() };
    Ok(Results::rows([value.to_string()]))
}
