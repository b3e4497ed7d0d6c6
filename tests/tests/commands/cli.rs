//! The command line: commands, settings and exit codes.

use insta::assert_snapshot;
use sandmill_tests::{Ran, TestJob, guest, python_guest};

/// A job of two files.
fn two_files() -> TestJob {
    TestJob::new(&guest("counts_runs"))
        .yaml("inputs: {texts: in}\nprocess_count_per_node: 1")
        .file("in/a.txt", "1")
        .file("in/b.txt", "22")
}

/// Rule W11 in docs/parallel-run-step.md.
#[test]
fn version_and_help() {
    let version = TestJob::empty().command(&["--version"]);
    version.exits_with(0);
    assert_snapshot!(version.stdout, @"sandmill 0.1.0");
    let help = TestJob::empty().command(&["--help"]);
    help.exits_with(0);
    assert_snapshot!(help.stdout, @"
    Runs untrusted WebAssembly entry scripts over large inputs, in parallel

    Usage: sandmill [OPTIONS] <COMMAND>

    Commands:
      run          Runs a job. If it was interrupted, it is resumed
      resume       Resumes a job that was interrupted, failed or was cancelled
      node         Runs workers of jobs of other machines, until a signal ends it
      serve        Runs the jobs of many tenants, and answers requests over HTTP, until a signal ends it
      portal       Shows a job to browsers of this machine, until a signal ends it
      submit       Submits a job to a server, and prints its id
      pause        Pauses a job of a server: it finishes its running mini-batches, and waits until it is
                   resumed
      plan         Summarizes a job, shows its mini-batches, and runs nothing
      status       Shows the state of a job
      jobs         Lists the jobs below a folder and their states
      cancel       Asks a running or waiting job to end. Committed results are kept
      clean        Removes the directories of jobs that ended long ago, including their output
      cache        Shows how much compiled code and how many objects are cached for later jobs. `clear`
                   removes them
      metrics      Prints the jobs below a folder as OpenMetrics, for Prometheus
      usage        Sums what jobs have used, exports it, or checks its hash chain
      logs         Prints the output of the entry script: of all workers, of one worker, or for one
                   mini-batch
      explain      Explains what went wrong in a job or made it slow, what to read, and what to change
      dataset      Registers input data of jobs under names with versions
      model        Registers models of jobs under names with versions
      signer       Makes the keys with which jobs on several machines are signed
      build        Makes a component from a guest crate, C sources or a core module, and prints its path
      python       Installs the runtime of entry scripts in Python
      javascript   Installs the runtime of entry scripts in JavaScript and TypeScript
      check        Checks whether a component keeps the contract, and lists its imports; or whether a
                   script can be run
      map          Runs an entry script on an Arrow IPC stream, from standard input to standard output
      doctor       Checks what this machine has for running untrusted entry scripts, and what is missing
      inspect      Shows what a component could access, judged by its imports, and runs nothing
      new          Creates the folder of a new entry script, ready to build and run
      version      Prints the version, its commit, and the features that it was built with
      completions  Prints a script for the shell that completes commands and options
      man          Writes a man page for each command
      help         Print this message or the help of the given subcommand(s)

    Options:
      -h, --help     Print help
      -V, --version  Print version

    Server:
          --server <URL>  The server of `sandmill serve` that has the job, as https://HOST:PORT or by
                          its name in the user's config file, for submit, jobs, status, logs, explain,
                          cancel, pause and resume [default: $SANDMILL_SERVER, else this machine]

    Logging:
          --log <LEVEL>          Logs what Sandmill does, on standard error: off, error, warn, info,
                                 debug or trace [default: $SANDMILL_LOG, else off]
          --log-format <FORMAT>  Format of the log: lines for people, or a JSON object per line
                                 [default: text] [possible values: text, json]
      -v, --verbose...           Logs more: -v is --log info, -vv --log debug, -vvv --log trace
      -q, --quiet                Prints only failures of a job: no progress, and no result if it
                                 completes

    Output:
          --color <WHEN>  When to use colours. auto: on a terminal, unless NO_COLOR is set or TERM is
                          dumb [default: auto] [possible values: auto, always, never]

    Exit codes:
        0  completed
        2  bad usage or bad job file; nothing was run
        3  the job has not ended (status --exit-code)
       41  the node ended, and its jobs go on elsewhere (node)
       42  the job failed; the component did not pass the check, or has refused imports
      130  the job was cancelled; what was committed is kept
    ");
    let help = TestJob::empty().command(&["run", "--help"]);
    assert_snapshot!(help.stdout, @"
    Runs a job. If it was interrupted, it is resumed

    Usage: sandmill run [OPTIONS] <JOB.yaml>

    Arguments:
      <JOB.yaml>  The job file

    Options:
          --set <KEY=VALUE>            Sets KEY of the job file to VALUE, written as in the file; may be
                                       given many times
          --job <NAME>                 The parallel job to run, if a pipeline file has several
          --policy <FILE>              The policy file, in which the operator of this machine limits
                                       what jobs may ask for [default: $SANDMILL_POLICY, else
                                       /etc/sandmill/policy.yaml if it exists]
          --tenant <NAME>              The tenant for whom the job runs: `${tenant}` in the roots of the
                                       policy stands for its name, and the job file cannot choose
                                       another one
          --weight <N>                 The weight of the tenant. A tenant of weight 3 gets three times
                                       as much of the machine (machine, in the policy) as a tenant of
                                       weight 1
          --datastores <FILE>          The file of datastores: the stores that inputs may name, with
                                       their credentials. It must be readable only by its owner
                                       [default: $SANDMILL_DATASTORES]
          --broker <URL>               The broker through which other machines run the workers: a NATS
                                       server, as nats://HOST:4222 or tls://HOST:4222, or several,
                                       separated by commas [default: $SANDMILL_BROKER, else none: this
                                       machine runs the workers]
          --broker-credentials <FILE>  The NATS credentials file for the broker [default:
                                       $SANDMILL_BROKER_CREDENTIALS]
          --broker-ca <FILE>           The certificates that may sign the broker's certificate, as PEM
                                       [default: $SANDMILL_BROKER_CA, else those of the system]
          --job-dir <DIR>              The folder for the job's state, logs and output [default: the
                                       job's name, in the folder of $SANDMILL_JOBS_ROOT, else of
                                       jobs_root in the user's config file, else in jobs]
          --process-count <N>          Number of workers; the same as --set process_count_per_node=N
          --gpus <N>                   Number of GPUs that workers may lease, 0 for none; the same as
                                       --set gpus=N
          --limit <N>                  Takes only the first N items of each input (rows of a table, or
                                       files), for a first try
          --allow-mixed                With a broker: machines may compute models with other libraries,
                                       versions or devices than each other; the same as --set
                                       allow_mixed_backends=true
          --sample <PERCENT>           Runs only this share of the mini-batches, such as 1%, for a first
                                       try; the same as --set sample=PERCENT
          --overwrite                  Starts anew if the job was run before; its results are removed
                                       first
          --standby                    Waits while another machine runs the job, and continues it if
                                       that machine is lost. The job file must have job_store. If the
                                       other machine completes the job, its result is reused. If the job
                                       fails or is cancelled there, this process ends with the same exit
                                       code
          --node-timeout <SECONDS>     With a broker: how many seconds a node may be silent. Then its
                                       mini-batches run on other nodes [default: 10]
          --no-takeover                With a broker: no agent continues the job if this process is lost
          --signing-key <FILE>         With a broker: the private key that signs the job, made by
                                       `sandmill signer new` [default: $SANDMILL_SIGNING_KEY]
          --detach                     With a broker: submits the job to an agent, which leads it, and
                                       ends when the agent has begun
          --upload                     Uploads inputs, side inputs and models that are on this machine
                                       into the job store, so that the other machines read them there.
                                       Files that are there already are not sent again
          --dry-run                    Shows what would be run, as `plan` does, and runs nothing
          --no-reuse                   Fails if the job is already finished, instead of reusing its
                                       result
          --cache-dir <DIR>            The folder for compiled entry scripts [default:
                                       $SANDMILL_CACHE_DIR, else cache_dir of the user's config file,
                                       else sandmill in the user's cache folder]
          --onnxruntime <PATH>         ONNX Runtime's library, or a folder that holds it, for jobs with
                                       models [default: $SANDMILL_ONNXRUNTIME, else $ORT_DYLIB_PATH,
                                       else, without a policy, onnxruntime of the user's config file,
                                       else where it is found: in the active virtual environment, beside
                                       python3, or in the usual places]
          --events <TARGET>            Writes each event of the job to standard output (TARGET is -), a
                                       JSON object per line, as in logs/sys/events.jsonl
          --json                       Prints the result of the job as JSON on standard output; with
                                       --events, as the last line
          --on-end <PROGRAM>           Calls this program when the job has ended, without a shell and
                                       without arguments. Its environment has SANDMILL_JOB,
                                       SANDMILL_STATE (completed, failed or cancelled) and SANDMILL_DIR.
                                       This command waits for it
      -h, --help                       Print help

    Server:
          --server <URL>  The server of `sandmill serve` that has the job, as https://HOST:PORT or by
                          its name in the user's config file, for submit, jobs, status, logs, explain,
                          cancel, pause and resume [default: $SANDMILL_SERVER, else this machine]

    Logging:
          --log <LEVEL>          Logs what Sandmill does, on standard error: off, error, warn, info,
                                 debug or trace [default: $SANDMILL_LOG, else off]
          --log-format <FORMAT>  Format of the log: lines for people, or a JSON object per line
                                 [default: text] [possible values: text, json]
      -v, --verbose...           Logs more: -v is --log info, -vv --log debug, -vvv --log trace
      -q, --quiet                Prints only failures of a job: no progress, and no result if it
                                 completes

    Output:
          --color <WHEN>  When to use colours. auto: on a terminal, unless NO_COLOR is set or TERM is
                          dumb [default: auto] [possible values: auto, always, never]

    Example:
      sandmill run job.yaml --set mini_batch_size=100

    More: docs/tutorial.md
    ");
}

#[test]
fn the_cache_is_shown_and_cleared() {
    let entry = format!("cache/{}-{}", "a".repeat(64), "b".repeat(32));
    let slot = format!("objects/2-{}-0", "c".repeat(24));
    let job = TestJob::empty()
        .datastores("1 MB", "")
        .file(&entry, [0; 2048])
        .file("cache/notes.txt", "mine")
        .file(&format!("{slot}/data/a/object"), [0; 512])
        .env("SANDMILL_CACHE_DIR", "cache");
    let shown = job.command(&["cache"]);
    let objects = shown.dir().join("objects").display().to_string();
    let expected = format!(
        "compiled code  1 file, 2 KB, without a limit: cache\n\
         guest crates   0 files, 0 bytes, without a limit: cache/guests\n\
         runtimes       0 files, 0 bytes, without a limit: cache/runtimes\n\
         copied logs    0 files, 0 bytes, without a limit: cache/stored-jobs\n\
         objects        1 file, 512 bytes, at most 1 MB: {objects}\n"
    );
    assert_eq!(shown.exits_with(0).stdout, expected);
    let compiled_cleared = shown.into_job().command(&["cache", "clear", "compiled"]);
    assert_eq!(compiled_cleared.exits_with(0).stdout, "removed compiled code: 1 file, 2 KB\n");
    assert!(compiled_cleared.has("cache/notes.txt"));
    assert!(compiled_cleared.has(&slot) && !compiled_cleared.has(&entry));
    let all_cleared = compiled_cleared.into_job().command(&["cache", "clear", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&all_cleared.exits_with(0).stdout).unwrap();
    assert_eq!(json["objects"], serde_json::json!({"files": 1, "bytes": 512}));
    assert!(!all_cleared.has(&slot));
}

#[test]
fn version_completions_and_man_pages() {
    let version = TestJob::empty().command(&["version"]);
    version.exits_with(0);
    assert!(
        version.stdout.starts_with("sandmill 0.1.0 (built for development)\nfeatures: "),
        "{version}"
    );
    let json = TestJob::empty().command(&["version", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!((&json["version"], &json["sandmill"]), (&1.into(), &"0.1.0".into()));
    let bash = TestJob::empty().command(&["completions", "bash"]);
    assert!(bash.stdout.contains("--process-count"), "{bash}");
    let man = TestJob::empty().command(&["man", "pages"]);
    man.exits_with(0).says("man -l pages/sandmill.1");
    assert!(man.text("pages/sandmill-run.1").contains("sandmill run job.yaml"), "{man}");
}

/// Rule W11.
#[test]
fn bad_usage_ends_with_2() {
    for (arguments, words) in [
        (&["rnu"][..], "did you mean sandmill run?"),
        (&["ls"], "did you mean sandmill jobs?"),
        (&["run"], "required arguments were not provided"),
        (&["run", "no.yaml"], "no.yaml"),
        (&["plan", "no.yaml"], "no.yaml"),
        (&["run", "job.yaml", "--set", "x"], "write KEY=VALUE"),
        (&["run", "job.yaml", "--process-count", "0"], "--process-count"),
        (&["check", "no.wasm"], "no.wasm"),
        (&["build", "no"], "no"),
        (&["new", "../up"], "\"../up\" cannot be the name"),
    ] {
        let ran = two_files().command(arguments);
        ran.exits_with(2).says(words);
        assert_eq!(ran.stdout, "", "messages go to stderr");
        assert!(!ran.has("jobs"), "nothing was run\n{ran}");
    }
}

/// Rule C27.
#[test]
fn set_reaches_every_kind_of_setting() {
    let ran = two_files().run(&[
        "--set",
        "mini_batch_size=1",
        "--set",
        "inputs.texts.path=in/b.txt",
        "--set",
        "append_row_file_name=rows.txt",
        "--set",
        "limits.memory=64 MB",
        "--set",
        "name=other",
    ]);
    ran.exits_with(0).says("Job other completed");
    assert_eq!(ran.text("job/output/rows.txt"), "b.txt process000 1\n");
}

#[test]
fn a_pinned_component_is_the_only_one_that_runs() {
    let ran =
        two_files().run(&["--set", &format!("entry_script_digest=sha256:{}", "0a".repeat(32))]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @"error: [REPO]/target/guests/wasm32-wasip2/release/examples/counts_runs.wasm has the SHA-256 [SHA256], but entry_script_digest is [SHA256]: it is not the component that this job was made for; put the right file there, or change entry_script_digest");
    // The message contains the component's real digest.
    let digests: Vec<&str> = ran
        .stderr
        .split(|c: char| !c.is_ascii_hexdigit())
        .filter(|word| word.len() == 64 && !word.starts_with("0a0a"))
        .collect();
    let pin = format!("entry_script_digest={}", digests.first().expect("the digest found"));
    two_files().run(&["--set", &pin]).exits_with(0);
}

#[test]
fn the_tenant_is_recorded() {
    let ran = two_files().yaml("tenant: radiology").run(&[]);
    ran.exits_with(0);
    assert!(ran.log("sys/events.jsonl").contains(r#""tenant":"radiology""#), "{ran}");
}

#[test]
fn the_description_is_in_the_result() {
    let ran = two_files().yaml("description: |\n  Digits of the night\n  and more").run(&[]);
    ran.exits_with(0);
    let result = ran.log("job_result.txt");
    assert!(result.contains("\n  description   Digits of the night ...\n"), "{result}");
    let ran = two_files().run(&[]);
    assert!(!ran.exits_with(0).log("job_result.txt").contains("description"), "{ran}");
}

/// Rule C6.
#[test]
fn process_count_overrides_the_job_file() {
    let job = two_files().yaml("mini_batch_size: 1");
    let ran = job.run(&["--process-count", "3"]);
    ran.exits_with(0).says("job test: 3 workers\n");
}

#[test]
fn the_job_directory_has_the_jobs_name() {
    let ran = two_files().command(&["run", "job.yaml"]);
    ran.exits_with(0).says("output        jobs/test/output/parallel_run_step.txt\n");
    assert!(ran.has("jobs/test/output/parallel_run_step.txt"));
}

#[test]
fn paths_are_relative_to_the_job_file() {
    let job = TestJob::empty().file("sub/in/a.txt", "").file(
        "sub/job.yaml",
        format!("name: sub\nentry_script: {}\ninputs: {{t: in}}\n", guest("run_only").display()),
    );
    let ran = job.command(&["run", "sub/job.yaml"]);
    ran.exits_with(0);
    assert_eq!(ran.text("jobs/sub/output/parallel_run_step.txt"), "a.txt\n");
}

#[test]
fn all_errors_of_a_job_file_are_reported_at_once() {
    let job = TestJob::empty().file("w/x", "").file(
        "job.yaml",
        "name: Bad Name
entry_scrpt: x.wasm
inputs:
  texts: {path: in, delimiter: ';'}
side_inputs: {w: {path: w, mount_path: relative}}
arguments: ['${{inputs.nope}}']
mini_batch_size: ten
node_count: 4
error_threshold: -2
output_action: append
run_invocation_timeout: 0
logging_level: LOUD
limits: {memory: 1, feul: 3}
",
    );
    let ran = job.run(&["--set", "run_max_try=none"]);
    ran.exits_with(2);
    assert_snapshot!(ran.redacted(), @r#"
    error: job.yaml: entry_script: missing; name a component (.wasm), a core module (.wasm), a folder of a guest crate or of C sources, or a script in Python (.py), JavaScript (.js, .mjs) or TypeScript (.ts)
    error: job.yaml:1: name: found "Bad Name"; expected 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit (e.g. nightly-digits)
    error: job.yaml:2: entry_scrpt: unknown key; did you mean entry_script?
    error: job.yaml:4: inputs.texts.delimiter: is for inputs of format csv or tsv only, and input texts is of format files; add its format (e.g. format: csv), or remove this key
    error: job.yaml:5: side_inputs.w.mount_path: found "relative"; expected an absolute path without empty, . or .. parts (e.g. /models/digits)
    error: job.yaml:6: arguments[0]: found "${{inputs.nope}}"; the first argument must start with "-", such as in [--model, digits.bin]
    error: job.yaml:6: arguments[0]: found the unknown reference ${{inputs.nope}}; the known references are ${{inputs.texts}}, ${{side_inputs.w}}, ${{output}}
    error: job.yaml:7: mini_batch_size: found "ten"; expected a whole number of files of at least 1 (e.g. 10)
    error: job.yaml:8: node_count: found 4; without a broker, a job runs on this machine only: leave node_count out, or connect machines by a broker (--broker URL; see docs/nodes.md)
    error: job.yaml:9: error_threshold: found -2; expected a whole number of items from 0 up, or -1 to ignore all failures
    error: job.yaml:10: output_action: found "append"; expected append_row or summary_only
    error: job.yaml:11: run_invocation_timeout: found 0; expected seconds, more than 0 and at most 259200 (e.g. 60)
    error: job.yaml:12: logging_level: found "LOUD"; expected WARNING, INFO or DEBUG
    error: job.yaml:13: limits.memory: found 1; expected a size of at least 64 KB (e.g. 512 MB)
    error: job.yaml:13: limits.feul: unknown key; did you mean fuel?
    error: --set run_max_try: found "none"; expected a whole number of attempts of at least 1 (e.g. 3)
    "#);
}

/// Rules C3, C4, C5, C28.
#[test]
fn a_file_that_the_azure_sdk_saved_runs() {
    let job = TestJob::empty().file("in/a.txt", "1").file("in/b.txt", "").file(
        "job.yaml",
        format!(
            "parallel_run_config:
  append_row_file_name: predictions.txt
  compute_target: cpu-cluster
  description: null
  entry_script: {}
  environment:
    name: batch_environment
    version: null
  environment_variables: {{}}
  error_threshold: -1
  logging_level: DEBUG
  mini_batch_size: '5'
  node_count: 4
  output_action: append_row
  partition_keys: null
  process_count_per_node: 2
  run_invocation_timeout: 600
  run_max_try: 3
  source_directory: null
",
            guest("echo_files").display()
        ),
    );
    let ran = job.run(&["--set", "inputs.texts.path=in", "--set", "name=imported"]);
    ran.exits_with(0);
    assert_eq!(ran.text("job/output/predictions.txt"), "a.txt: 1\nb.txt: 0\n");
    assert_snapshot!(ran.redacted(), @r"
    job imported: 2 workers
    note: 5 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    note: node_count: the file asks for 4 nodes; the job runs on this machine only, with process_count_per_node workers in all; to use more machines, connect them by a broker (--broker URL; see docs/nodes.md)
    Job imported completed in [TIME].
      mini-batches  1
      items         2
      rows          2
      output        job/output/predictions.txt
    ");
    let log = master_role(&ran);
    for line in [
        "compute_target: ignored, the job runs on this machine",
        "first_task_creation_timeout is not in the saved file: 600 seconds (as in Azure)",
        "= 3 x (600 + 600) + 60, and at least 600",
    ] {
        assert!(log.contains(line), "{log}");
    }
}

/// The log of the leader: the newest `master_role.*.txt`.
fn master_role(ran: &Ran) -> String {
    let folder = std::fs::read_dir(ran.dir().join("job/logs/sys")).expect("a log tree");
    let names = folder.map(|entry| entry.expect("an entry").file_name().display().to_string());
    let name = names.filter(|name| name.starts_with("master_role.")).max().expect("a leader's log");
    ran.text(&format!("job/logs/sys/{name}"))
}

#[test]
fn missing_keys_of_a_saved_file_get_azures_defaults() {
    let script = guest("echo_files").display().to_string();
    let yaml =
        format!("parallel_run_config:\n  entry_script: {script}\n  process_count_per_node: 1\n");
    let job = TestJob::empty().file("in/a.txt", "1").file("job.yaml", yaml);
    let plan = job.command(&["plan", "job.yaml", "--set", "inputs.texts.path=in"]);
    plan.exits_with(0);
    assert_snapshot!(plan.redacted(), @"
    note: 10 settings are converted from Azure's file; sandmill plan -v lists them, and so does the job's logs/sys/master_role.*.txt
    1 mini-batch, 1 item, 1 byte; 1 worker; the results go to jobs/job/output
    ");
    let plan =
        plan.into_job().command(&["plan", "job.yaml", "--set", "inputs.texts.path=in", "-v"]);
    plan.exits_with(0);
    let notes = plan.redacted();
    let lines: Vec<_> =
        notes.lines().filter(|line| line.contains(" is not in the saved file")).collect();
    assert_snapshot!(lines.join("\n"), @r"
    note: output_action is not in the saved file: append_row (Azure has no default for it)
    note: append_row_file_name is not in the saved file: parallel_run_step.txt (as in Azure)
    note: mini_batch_size is not in the saved file: 10 files (as in Azure)
    note: run_max_try is not in the saved file: 3 (as in Azure)
    note: run_invocation_timeout is not in the saved file: 60 seconds (as in Azure)
    note: task_overhead_timeout is not in the saved file: 600 seconds (Azure's pages say 30 or 600)
    note: first_task_creation_timeout is not in the saved file: 600 seconds (as in Azure)
    note: progress_update_timeout is not in the saved file: 2040 seconds, from attempts x (task_overhead_timeout + run_invocation_timeout) + 60 = 3 x (600 + 60) + 60, and at least 600
    note: error_threshold is not in the saved file: 0 (Azure has no default for it; Sandmill ignores failures only if asked to)
    note: logging_level is not in the saved file: INFO (as in Azure)
    ");
}

/// A pipeline file of version 2, with two parallel jobs and a command job.
fn pipeline() -> TestJob {
    let script = guest("echo_files").display().to_string();
    let score = format!(
        "{{type: parallel, inputs: {{d: \"${{{{parent.inputs.d}}}}\"}}, outputs: {{o: {{type: uri_file}}}}, \
         input_data: \"${{{{inputs.d}}}}\", max_concurrency_per_instance: 1, \
         retry_settings: {{max_retries: 1}}, task: {{entry_script: {script}, \
         append_row_to: \"${{{{outputs.o}}}}\"}}}}"
    );
    TestJob::empty().file("in/a.txt", "1").file(
        "job.yaml",
        format!(
            "type: pipeline\ninputs: {{d: {{type: uri_folder, path: in}}}}\njobs:\n  \
             prepare: {{type: command}}\n  first: {score}\n  second: {score}\n"
        ),
    )
}

/// Rules C17, C27: `--job` selects a parallel job of a pipeline by its name.
#[test]
fn a_job_of_a_pipeline_is_picked_by_name() {
    let ran = pipeline().run(&["--job", "second"]);
    ran.exits_with(0)
        .says("Job second completed")
        .says("13 settings are converted from Azure's file");
    let log = master_role(&ran);
    assert!(
        log.contains(
            "retry_settings.max_retries 1 is run_max_try 2: the first attempt also counts"
        )
    );
    assert_eq!(ran.text("job/output/parallel_run_step.txt"), "a.txt: 1\n");
    let ran = pipeline().run(&[]);
    ran.exits_with(2).says("pick one by --job NAME: first, second");
    let ran = pipeline().run(&["--job", "prepare"]);
    ran.exits_with(2).says("--job: found \"prepare\", which is not a parallel job");
}

#[test]
fn check_lists_what_a_component_needs() {
    let good = guest("run_only").display().to_string();
    let ran = TestJob::empty().command(&["check", &good]);
    ran.exits_with(0);
    let text = ran.redacted_stdout();
    let text = text.split_once(" bytes\n").expect("the size").1;
    // The toolchain decides what a component imports from WASI, but every component has these two imports.
    for (purpose, import) in [
        ("the job's arguments and environment variables", "wasi:cli/environment@0.2."),
        ("ending itself", "wasi:cli/exit@0.2."),
    ] {
        assert!(text.contains(&format!("  {purpose}\n    {import}")), "{text}");
    }
    let streams = text.find("  reading and writing what the other imports give").expect("streams");
    let first_of_wasi =
        text.find("  the job's arguments").map_or(streams, |arguments| arguments.min(streams));
    let functions = text.find("Functions: ").expect("functions");
    assert_snapshot!(format!("{}{}", &text[..first_of_wasi], &text[functions..]), @r"
    sha256:[SHA256]
    Exports:
      sandmill:entry/entry-run@0.2.0
    Imports, and what they give it:
      the worker's name and folders, the log, and reading whole files
        sandmill:entry/host@0.2.0
      types only
        sandmill:entry/types@0.2.0
    Functions: run
    It keeps the contract.
    ");

    let bad = guest("not_entry").display().to_string();
    let ran = TestJob::empty().command(&["check", &bad]);
    ran.exits_with(42);
    let text = ran.redacted_stdout();
    let is_shown = |line: &&str| !line.starts_with("  ") || line.contains("greet");
    assert_snapshot!(text.lines().skip(1).filter(is_shown).collect::<Vec<_>>().join("\n"), @r"
    sha256:[SHA256]
    Exports:
      greet
    Imports, and what they give it:
    It does not keep the contract:
    [REPO]/target/guests/wasm32-wasip2/release/examples/not_entry.wasm: the component does not export run (it exports greet). An entry script exports the interface sandmill:entry/entry@0.2.0 (init, run, shutdown) or sandmill:entry/entry-run@0.2.0 (run only); sandmill-guest makes one
    ");

    let python = python_guest().display().to_string();
    let ran = TestJob::empty().command(&["check", &python]);
    ran.exits_with(0);
    assert!(ran.stdout.contains("Functions: run, init, shutdown\n"), "{ran}");
}

#[test]
fn check_runs_on_given_files() {
    let good = guest("echo_files").display().to_string();
    let job = TestJob::empty().file("a.txt", "12345").file("sub/b.txt", "");
    let ran = job.command(&["check", &good, "--run", "a.txt", "sub/b.txt"]);
    ran.exits_with(0);
    let from_functions =
        |text: String| text.split_once("Functions").map_or(text.clone(), |(_, end)| end.to_owned());
    assert_snapshot!(from_functions(ran.redacted_stdout()), @r"
    : run, init, shutdown
    It keeps the contract.
    init ([TIME]): ok
    run ([TIME]): ok
    returned 2 rows and 0 failed items
      a.txt: 5
      b.txt: 0
    shutdown ([TIME]): ok
    ");
    let bad = guest("hostile_files").display().to_string();
    let ran = ran.into_job().command(&["check", &bad, "--run", "a.txt"]);
    ran.exits_with(42);
    assert_snapshot!(from_functions(ran.redacted_stdout()), @r"
    : run, init, shutdown
    It keeps the contract.
    init ([TIME]): --do WHAT is missing
    ");
}
