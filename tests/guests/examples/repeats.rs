//! Ordinary: collects everything that could differ from one run to the next. A row per item, `NAME|FACTS`,
//! with the facts joined by `|`. With `--fail-first`, the first attempt at every mini-batch fails: with an
//! error if the id is odd, with a panic if it is even. With `--fail-later`, every `init` but the first fails.
//! `run` sleeps for an hour per item, unless `--awake` is given.

use sandmill_guest::{EntryScript, Files, Job, MiniBatchContext, Result, Results};
use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

struct Guest {
    begun: Instant,
    calls: u32,
    of_init: u64,
    fail_first: bool,
    nap: Duration,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        // A file that the guest wrote also has a time.
        fs::write(job.output_dir().join("of_init.txt"), "")?;
        let was_here = job.log_dir().join("was_here");
        if job.arguments().iter().any(|argument| argument == "--fail-later") && was_here.exists() {
            return Err("there was an instance before".into());
        }
        fs::write(was_here, "")?;
        let fail_first = job.arguments().iter().any(|argument| argument == "--fail-first");
        let awake = job.arguments().iter().any(|argument| argument == "--awake");
        let nap = Duration::from_secs(if awake { 0 } else { 3600 });
        Ok(Guest { begun: Instant::now(), calls: 0, of_init: random(), fail_first, nap })
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        self.calls += 1;
        if self.fail_first && context.attempt == 1 {
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
        let before = Instant::now();
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
            format!("random={:x} {:x} {:x}", self.of_init, random(), random()),
            format!("set={set:?}"),
            format!("map={map:?}"),
            format!("date={}", seconds(SystemTime::now())),
            format!("since init={:?}", self.begun.elapsed()),
            format!("slept={}", before.elapsed().as_secs()),
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
