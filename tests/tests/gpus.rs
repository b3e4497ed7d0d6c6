//! GPUs: who gets which, and what a guest sees of it. No GPU is needed for that.

use sandmill_tests::{Job, guest};

/// What a guest says of its GPU and of the variables about GPUs; one text for each mini-batch.
fn seen(settings: &str) -> Vec<String> {
    let job = Job::new(&guest("surroundings"))
        .yaml("source_directory: code\ninputs: {texts: in}\nmini_batch_size: 1")
        .yaml(settings)
        .file("code/one.txt", "");
    let ran = (0..8).fold(job, |job, n| job.file(&format!("in/{n}.txt"), "")).run(&[]);
    ran.exits_with(0);
    let output = ran.output();
    let told = |line: &str| {
        let words = line.split(['|', '"', '[', ']']).map(|word| word.trim_matches([',', ' ']));
        let about = ["agent_name=", "gpu_index=", "CUDA_", "AZ_BATCHAI_"];
        let kept = words.filter(|word| about.iter().any(|start| word.starts_with(start)));
        kept.collect::<Vec<_>>().join(" ")
    };
    let mut all: Vec<String> = output.lines().map(told).collect();
    all.sort();
    all.dedup();
    all
}

/// G1, G3, V1: the lowest free index, also where the job file says otherwise.
#[test]
fn a_worker_gets_a_gpu() {
    let seen = seen(
        "gpus: 2\nprocess_count_per_node: 1\nenvironment_variables: {CUDA_VISIBLE_DEVICES: '7'}",
    );
    let expected = "agent_name=process000 gpu_index=Some(0) AZ_BATCHAI_GPU_COUNT_FOUND=2 \
                    CUDA_VISIBLE_DEVICES=0";
    assert_eq!(seen, [expected]);
}

/// G2, V1: no variable at all, not an empty one.
#[test]
fn a_worker_beyond_the_gpus_gets_none() {
    for line in seen("gpus: 1\nprocess_count_per_node: 2") {
        let (expected, agent) = match line.contains("process000") {
            true => ("gpu_index=Some(0) AZ_BATCHAI_GPU_COUNT_FOUND=1 CUDA_VISIBLE_DEVICES=0", 0),
            false => ("gpu_index=None AZ_BATCHAI_GPU_COUNT_FOUND=1", 1),
        };
        assert_eq!(line, format!("agent_name=process00{agent} {expected}"));
    }
    assert_eq!(
        seen("gpus: 0\nprocess_count_per_node: 1"),
        ["agent_name=process000 gpu_index=None"]
    );
}
