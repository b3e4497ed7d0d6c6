//! Entry scripts in JavaScript and TypeScript. `make javascript` installs their runtime.

use insta::assert_snapshot;
use sandmill_tests::TestJob;
use std::path::Path;

/// A job over one file, with one attempt.
fn one_file(script: &str) -> TestJob {
    TestJob::new(Path::new("score.js"))
        .yaml("inputs: {texts: in}\nprocess_count_per_node: 1\nrun_max_try: 1\nlimits: {memory: 200 MB}")
        .file("score.js", script)
        .file("in/a.txt", "1")
}

#[test]
fn a_script_in_typescript_works_on_a_table() {
    let script = "import { Table, args, env, int64, log, outputDir, writeFile } from 'sandmill';
import last, { double } from './lib/more';
export function init(): void { log.info('init', ...args(), env().COLOUR); console.log('printed', { a: 1 }); }
export function run(table: Table, context: { id: number; attempt: number }): Table {
    writeFile(`${outputDir()}/extra.txt`, `é ${last} ${context.id} ${context.attempt}`);
    const ids = table.get('id') as unknown[];
    return table.with({ twice: table.get('v').map(double), n: int64(ids.map((_, at) => at)) });
}
export function shutdown() { log.warning('bye'); }
";
    let csv = "id,name,v,day,at,ok\n1,Ann,1.5,2024-01-31,2024-01-31T10:00:00Z,true\n2,,,2024-02-29,,false\n\
               9007199254740993,Zo\u{eb},2.25,,,\n";
    let ran = TestJob::new(Path::new("score.ts"))
        .file("score.ts", script)
        .file(
            "lib/more.ts",
            "export const double = (x: number | null) => (x === null ? null : x * 2);\nexport default 'more';\n",
        )
        .file("t.csv", csv)
        .yaml("inputs: {t: {path: t.csv, format: csv}}\noutput_format: jsonl\nprocess_count_per_node: 1\narguments: [--a, b]\nenvironment_variables: {COLOUR: red}")
        .run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.text("job/output/parallel_run_step.jsonl"), @r#"
    {"id":1,"name":"Ann","v":1.5,"day":"2024-01-31","at":"2024-01-31T10:00:00Z","ok":true,"twice":3.0,"n":0}
    {"id":2,"name":null,"v":null,"day":"2024-02-29","at":null,"ok":false,"twice":null,"n":1}
    {"id":9007199254740993,"name":"Zoë","v":2.25,"day":null,"at":null,"ok":null,"twice":4.5,"n":2}
    "#);
    assert_eq!(ran.text("job/output/extra.txt"), "\u{e9} more 0 1");
    let log = ran.log("user/entry_script_log/0/process000.log.txt");
    assert!(log.contains("init --a b red") && log.trim_end().ends_with("bye"), "{log}");
    assert_eq!(ran.log("user/stdout/0/process000.stdout.txt"), "printed {\"a\":1}\n");
    assert!(ran.log("job_result.txt").contains("javascript-"));
}

/// Rows may be numbers, objects and failed items. Scripts may be CommonJS modules, or have a default export.
#[test]
fn rows_are_texts_or_json() {
    let script = "const { failed } = require('sandmill');
module.exports = { run: (files) => [{ file: files[0].split('/').pop(), n: [1, null] }, 2.5, 'text', failed('bad')] };
";
    let job = ["b", "c", "d"]
        .iter()
        .fold(one_file(script), |job, name| job.file(&format!("in/{name}.txt"), ""));
    let ran = job.run(&["--set", "error_threshold=1"]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "{\"file\":\"a.txt\",\"n\":[1,null]}\n2.5\ntext\n");
    assert!(ran.log("failed_items.csv").contains(",bad"), "{}", ran.log("failed_items.csv"));
    let ran =
        one_file("export default { run(files) { return files.map((file) => file.length); } };")
            .run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), "19\n");
}

#[test]
fn wrong_scripts_get_clear_messages() {
    let scripts = [
        "export function run(b) { return [1,; }",
        "export function go(b) {}",
        "import _ from 'lodash'; import j from './x.json'; export function run(b) { return b; }",
        "export async function run(b) { return b; }",
        "export function run(b) {}",
        "export function run(b) { return [undefined]; }",
        "export function run(b) { return ['\\ud800x']; }",
        "export function run(b) {\n  const x = null;\n  return x.y;\n}",
        "export function run(b) { throw 'plain text'; }",
        "export function run(b) { const a = []; for (;;) a.push(new Uint8Array(1e6).fill(1)); }",
        "export function run(b) { return run(b); }",
        "import { readText } from 'sandmill'; export function run(b) { return [readText('/etc/passwd')]; }",
        "import { writeFile } from 'sandmill'; export function run(b) { writeFile('/inputs/texts/x', '1'); return b; }",
    ];
    let message = |script: &str| {
        let ran = one_file(script).run(&[]);
        let messages = ran.messages();
        let cause = messages.lines().find(|line| line.contains("first cause"));
        cause.map_or(messages.clone(), |line| line.trim_start().to_owned())
    };
    assert_snapshot!(scripts.map(message).join("\n"), @r#"
    error: SyntaxError: score.js, line 1, column 36: Unexpected token
    error: `run` of score.js is missing; write: export function run(miniBatch) { ... }
    error: score.js, line 1: imports lodash, which the JavaScript runtime does not have: bundle the script and its packages into one file, e.g. with esbuild --bundle --format=esm --external:sandmill
    error: score.js, line 1: imports ./x.json, which the JavaScript runtime does not have: that file does not exist; if the job names no source_directory, scripts see only .js and .ts files
    first cause   TypeError: run returned a promise (remove async from the function run); it must return an array with one row for each item, or a Table
    first cause   TypeError: run returned undefined (is there a return statement?); it must return an array with one row for each item, or a Table
    first cause   TypeError: row 0 that run returned is of type undefined; a row is a text, a number, or an object, which becomes JSON
    first cause   TypeError: row 0 that run returned is not valid Unicode: "\ud800x"
    first cause   TypeError: cannot read property 'y' of null (line 3)
    first cause   plain text
    first cause   InternalError: out of memory (line 1)
    first cause   the entry script's stack overflowed in run: limits.stack allows 1 MB. Use less recursion, or raise the limit
    first cause   Error: /etc/passwd: it is outside of the folders that were granted (line 1)
    first cause   Error: /inputs/texts/x cannot be written: not-permitted (line 1)
    "#);
}

#[test]
fn a_missing_runtime_is_reported_with_its_install_command() {
    let job = one_file("export function run(b) { return b; }");
    let ran = job.env("SANDMILL_CACHE_DIR", "empty").run(&[]);
    ran.exits_with(2).says("install it once: sandmill javascript install");
}
