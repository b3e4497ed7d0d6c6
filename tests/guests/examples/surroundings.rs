//! An ordinary guest (not a hostile one): reports its environment. Writes each fact as a line to stdout and
//! to the log. Returns a row for each item, `PATH|CONTEXT|FACTS`, with the facts joined by `|`. With
//! `--nap MILLISECONDS`, each call of `run` sleeps that long after it has printed.

use sandmill_guest::{
    Context, EntryScript, Files, Job, MiniBatchContext, Result, Results, log, logging,
};
use std::path::PathBuf;
use std::time::Duration;

struct Guest {
    facts: Vec<String>,
    nap: Duration,
}

impl EntryScript for Guest {
    type Input = Files;

    fn init(job: &Job) -> Result<Self> {
        let mut facts = vec![
            format!("arguments={:?}", job.arguments()),
            format!("agent_name={}", job.agent_name()),
            format!("node_id={}", job.node_id()),
            format!("log_dir={}", job.log_dir().display()),
            format!("output_dir={}", job.output_dir().display()),
            format!("source_dir={:?}", job.source_dir()),
            format!("gpu_index={:?}", job.gpu_index()),
        ];
        let mut variables: Vec<_> = std::env::vars().map(|(k, v)| format!("{k}={v}")).collect();
        variables.sort();
        facts.push(format!("environment={variables:?}"));
        let mut root: Vec<_> = std::fs::read_dir("/")
            .map(|dir| {
                dir.flatten().map(|e| e.file_name().to_string_lossy().into_owned()).collect()
            })
            .unwrap_or_default();
        root.sort();
        facts.push(format!("root={root:?}"));
        if let Some(dir) = job.source_dir() {
            let count = std::fs::read_dir(dir)?.count();
            facts.push(format!("source_entries={count}"));
        }
        std::fs::write(job.log_dir().join(format!("{}.txt", job.agent_name())), facts.join("\n"))?;
        log::error!("an error");
        logging::warning("a warning");
        log::info!("some information");
        logging::debug("a detail");
        println!("init to stdout");
        eprintln!("init to stderr");
        let nap = job.argument("--nap").map_or(Ok(0), str::parse::<u64>).context("--nap")?;
        Ok(Guest { facts, nap: Duration::from_millis(nap) })
    }

    fn run(&mut self, files: &[PathBuf], context: &MiniBatchContext) -> Result<Results> {
        println!("run {} attempt {}", context.id, context.attempt);
        let context = format!(
            "id={}|dataset={}|attempt={}|keys={:?}",
            context.id, context.dataset, context.attempt, context.partition_key_value
        );
        for fact in &self.facts {
            println!("{fact}");
            log::info!("{fact}");
        }
        std::thread::sleep(self.nap);
        let facts = self.facts.join("|");
        Ok(Results::rows(files.iter().map(|f| format!("{}|{context}|{facts}", f.display()))))
    }

    fn shutdown(&mut self) {
        log::info!("shutdown");
        println!("shutdown to stdout");
    }
}

sandmill_guest::export!(Guest);
