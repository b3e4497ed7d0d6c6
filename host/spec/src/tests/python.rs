//! Tests of entry scripts in Python.

use super::*;

fn fixture() -> SpecFixture {
    let fixture = SpecFixture::new();
    for file in ["score.py", "source/score.py", "source/deep/score.PY"] {
        let path = fixture.0.path().join(file);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, "").expect("a file");
    }
    fixture
}

const FILES: &str = "inputs: {a: data}\n";

#[test]
fn a_script_is_seen_below_the_source_folder() {
    let fixture = fixture();
    let guest = |text: &str| {
        let spec = fixture.load(format!("{text}{FILES}"), &[]).expect("a good job file");
        spec.script.expect("a Python script").guest
    };
    assert_eq!(guest("entry_script: score.py\n"), "/source/score.py");
    assert_eq!(guest("entry_script: source/score.py\n"), "/source/score.py");
    let with = "source_directory: source\nentry_script: ";
    assert_eq!(guest(&format!("{with}score.py\n")), "/source/score.py");
    assert_eq!(guest(&format!("{with}deep/score.PY\n")), "/source/deep/score.PY");
}

#[test]
fn invalid_settings_of_scripts_are_refused() {
    let fixture = fixture();
    let errors = |text: &str| fixture.load(text, &[]).expect_err("a bad job file");
    let outside = format!("source_directory: source\nentry_script: ../score.py\n{FILES}");
    let word = format!("entry_script: score.py\npython: {{runtime: heavy}}\n{FILES}");
    let all = [outside.as_str(), &word].map(errors).join("\n");
    let all = all.replace(fixture.0.path().to_str().expect("UTF-8"), "[dir]");
    insta::assert_snapshot!(all, @r#"
    job.yaml:2: entry_script: [dir]/source/../score.py is not in source_directory ([dir]/source), and a script sees no other folder; move it there, or set source_directory to the folder that contains it
    job.yaml:2: python.runtime: found "heavy"; expected auto, light or science
    "#);
}

#[test]
fn the_versions_that_a_script_asks_for_are_read() {
    let fixture = fixture();
    let root = fixture.0.path();
    fs::write(root.join("conda.yml"), "dependencies: [{pip: [pandas==1.5.3]}]").expect("a file");
    let asked = |text: &str| {
        let spec = fixture.load(text, &[]).expect("a good job file");
        let (file, asked) = spec.script.expect("a Python script").requirements.expect("a file");
        assert_eq!((asked[0].package.as_str(), asked[0].version.as_str()), ("pandas", "1.5.3"));
        (file, spec.conversions.join("\n"))
    };
    let own = format!("entry_script: score.py\npython: {{requirements: conda.yml}}\n{FILES}");
    assert_eq!(asked(&own).0, "conda.yml");
    let azure = "$schema: https://example.org/modelBatchDeployment.schema.json\nname: x\n\
        environment: {name: y, conda_file: conda.yml}\ninputs: {a: data}\n\
        code_configuration: {code: source, scoring_script: score.py}\n";
    let reported = asked(azure).1;
    assert!(reported.contains("conda_file, which is read as python.requirements"), "{reported}");
    fs::write(root.join("bad.yaml"), "a: [").expect("a file");
    let wrong = ["bad.yaml", "nothing.txt", "data"].map(|file| {
        let text = format!("entry_script: score.py\npython: {{requirements: {file}}}\n{FILES}");
        fixture.load(&text, &[]).expect_err("a bad job file")
    });
    let wrong = wrong.join("\n").replace(root.to_str().expect("UTF-8"), "[dir]");
    insta::assert_snapshot!(wrong, @"
        job.yaml:2: python.requirements: [dir]/bad.yaml is not valid YAML, the format of a conda environment
        job.yaml:2: python.requirements: there is no [dir]/nothing.txt
        job.yaml:2: python.requirements: [dir]/data cannot be read: it is not a regular file but a folder
        ");
}

#[test]
fn a_runtime_for_a_component_is_noted() {
    let fixture = fixture();
    fs::write(fixture.0.path().join("script.wasm"), "").expect("a file");
    let text = format!("entry_script: script.wasm\npython: {{runtime: light}}\n{FILES}");
    let spec = fixture.load(&text, &[]).expect("a good job file");
    assert_eq!(spec.script, None);
    assert_eq!(
        spec.notices,
        ["python has no effect: the entry script is not a Python script (.py)"]
    );
}
