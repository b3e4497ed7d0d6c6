//! An ordinary guest (not a hostile one): collects all facts that could differ between two runs of a job,
//! such as random numbers and times. Returns a row for each item, `NAME|FACTS`, with the facts joined by `|`.
//!
//! With `--fail-first`, the first attempt at each mini-batch fails: with an error if the mini-batch's id is
//! odd, and with a panic if the id is even. With `--fail-later`, every call of `init` except the first fails.
//! `run` sleeps for an hour for each item, unless `--awake` is given.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

struct Guest {
    begun: Instant,
    calls: u32,
    init_random: u64,
    fails_first: bool,
    nap: Duration,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        // `facts` also collects the time of a file that the guest wrote.
        fs::write(job.output_dir().join("of_init.txt"), "")?;
        let earlier_init = job.log_dir().join("was_here");
        if job.arguments().iter().any(|argument| argument == "--fail-later")
            && earlier_init.exists()
        {
            return Err("there was an instance before".into());
        }
        fs::write(earlier_init, "")?;
        let fails_first = job.arguments().iter().any(|argument| argument == "--fail-first");
        let is_awake = job.arguments().iter().any(|argument| argument == "--awake");
        let nap = Duration::from_secs(if is_awake { 0 } else { 3600 });
        Ok(Guest { begun: Instant::now(), calls: 0, init_random: random(), fails_first, nap })
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        self.calls += 1;
        if self.fails_first && context.attempt == 1 {
            assert!(context.id % 2 == 1, "as asked");
            return Err("as asked".into());
        }
        let mut rows = Vec::new();
        for file in files {
            let facts = self.facts(file)?;
            let name = file.file_name().unwrap_or_default().to_string_lossy();
            rows.push(format!("{name}|{}", facts.join("|")));
        }
        Ok(Results::rows(rows))
    }

    fn shutdown(&mut self) {
        println!("shutdown after {} calls", self.calls);
    }
}

impl Guest {
    fn facts(&self, file: &Path) -> Result<Vec<String>> {
        let before_sleep = Instant::now();
        std::thread::sleep(self.nap);
        let set: HashSet<u32> = (0..20).collect();
        let map: HashMap<String, u32> = (0..9).map(|n| (n.to_string(), n)).collect();
        let nan = std::hint::black_box(0.0_f64) / std::hint::black_box(0.0_f64);
        let times = [file, Path::new("/output/of_init.txt"), Path::new("/side_inputs/many")]
            .map(|path| fs::metadata(path).and_then(|found| found.modified()).map(seconds));
        let times: Vec<_> = times.into_iter().collect::<std::io::Result<_>>()?;
        let mut listed = Vec::new();
        for entry in fs::read_dir("/side_inputs/many")? {
            listed.push(entry?.file_name().to_string_lossy().into_owned());
        }
        Ok(vec![
            format!("calls={}", self.calls),
            format!("random={:x} {:x} {:x}", self.init_random, random(), random()),
            format!("set={set:?}"),
            format!("map={map:?}"),
            format!("date={}", seconds(SystemTime::now())),
            format!("since init={:?}", self.begun.elapsed()),
            format!("slept={}", before_sleep.elapsed().as_secs()),
            format!("nan={:x}", nan.to_bits()),
            format!("times={times:?}"),
            format!("listed={listed:?}"),
        ])
    }
}

/// Seconds since 1970.
fn seconds(time: SystemTime) -> u64 {
    time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

fn random() -> u64 {
    RandomState::new().hash_one(0)
}

sandmill_guest::export!(Guest);
