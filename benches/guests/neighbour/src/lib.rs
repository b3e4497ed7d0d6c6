//! Imitates another tenant on the same machine, whose job may be hostile. Repeats one act; the job's argument
//! selects it: `--do idle`, `cpu`, `faults`, `disk`, `logs` or `bandwidth`.

use sandmill_guest::{Context, EntryScript, Job, MiniBatchContext, Result, Results, Void};
use std::fs;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// The approximate time of one mini-batch.
const BATCH_TIME: Duration = Duration::from_millis(50);
const MEGABYTE: usize = 1 << 20;

struct Neighbour {
    act: fn(),
    /// The memory that the act `bandwidth` copies. Empty for all other acts.
    memory: Vec<u8>,
}

impl EntryScript for Neighbour {
    type Input = Void;

    fn init(job: &Job) -> Result<Self> {
        let act = match job.argument("--do").context("the argument --do is missing")? {
            "idle" => || std::thread::sleep(BATCH_TIME),
            "cpu" => spin,
            "faults" => touch_and_die,
            "disk" => fill_disk,
            "logs" => flood_log,
            "bandwidth" => return Ok(Neighbour { act: spin, memory: vec![1; 256 * MEGABYTE] }),
            other => return Err(format!("--do cannot be {other}").into()),
        };
        Ok(Neighbour { act, memory: Vec::new() })
    }

    fn run(&mut self, _data: (), _context: &MiniBatchContext) -> Result<Results> {
        match self.memory.is_empty() {
            true => (self.act)(),
            false => copy_around(&mut self.memory),
        }
        Ok(Results::rows(Vec::<String>::new()))
    }
}

fn spin() {
    let begin = Instant::now();
    let mut sum = 0_u64;
    while begin.elapsed() < BATCH_TIME {
        for number in 0..1_000_000 {
            sum = black_box(sum.wrapping_mul(31).wrapping_add(number));
        }
    }
}

/// Touches new pages in each mini-batch, because the host discards the instance after a trap.
fn touch_and_die() {
    let memory = vec![1_u8; 256 * MEGABYTE];
    black_box(&memory);
    panic!("so that the next mini-batch gets fresh pages");
}

fn fill_disk() {
    let block = vec![7_u8; 8 * MEGABYTE];
    for number in 0..8 {
        // Ignore the error if the disk is full.
        let _ = fs::write(format!("/output/{number}"), &block);
    }
    for number in 0..8 {
        let _ = fs::remove_file(format!("/output/{number}"));
    }
}

fn flood_log() {
    let line = "x".repeat(1000);
    for _ in 0..10_000 {
        println!("{line}");
    }
}

fn copy_around(memory: &mut [u8]) {
    let half = memory.len() / 2;
    let (one, other) = memory.split_at_mut(half);
    other.copy_from_slice(black_box(one));
    black_box(other);
}

sandmill_guest::export!(Neighbour);
