//! Models from JavaScript scripts.

use insta::assert_snapshot;
use sandmill_tests::{TestJob, root};
use std::path::Path;

/// A script gets the same outputs from models as a component, and clear error messages (see also
/// `python.rs`).
#[test]
fn a_script_computes_with_models() {
    let script = "import { models } from 'sandmill';
let iris;
function tried(call) {
    try {
        console.log(JSON.stringify(call()));
    } catch (error) {
        console.log(`${error.name}: ${error.message}`);
    }
}
export function init() {
    iris = models.load('iris');
    console.log(models.names(), iris);
    for (const bad of [{ nope: [[1]] }, [[1, 2], [1]], [[1, 2]], [['x']], [[1, 2, 3, null]], 1, new models.Tensor([1], [1])]) tried(() => iris.run(bad));
    tried(() => new models.Tensor([2, 2], [1]));
    tried(() => models.load('other'));
    tried(() => iris.run(new Float64Array(0)));
    tried(() => iris.run([]).probabilities);
    tried(() => iris.run(new models.Tensor([1, 4], new Float64Array([5.1, 3.5, 1.4, 0.2]))).label.toArray());
}
export function run(table) {
    const { label, probabilities } = iris.run({ X: [...table].map(({ a, b, c, d }) => [a, b, c, d]) });
    const [labels, scores] = [label.toArray(), probabilities.toArray()];
    return table.get('id').map((id, row) => `${id} ${labels[row]} ${Math.max(...scores[row]).toFixed(3)} ${probabilities.shape}`);
}
";
    let model = root().join("tests/models/logistic_regression.onnx");
    let ran = TestJob::new(Path::new("score.js"))
        .yaml(&format!("models: {{iris: {}}}", model.display()))
        .yaml("inputs: {t: {path: t.csv, format: csv}}\nprocess_count_per_node: 1")
        .file("score.js", script)
        .file("t.csv", "id,a,b,c,d\n1,5.1,3.5,1.4,0.2\n2,6.3,3.3,6.0,2.5\n")
        .run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @"
    1 0 0.982 2,3
    2 2 0.996 2,3
    ");
    assert_snapshot!(ran.log("user/stdout/0/process000.stdout.txt"), @r#"
    ["iris"] {"name":"iris","inputs":[{"name":"X","type":"fp32","shape":[null,4]}],"outputs":[{"name":"label","type":"i64","shape":[null]},{"name":"probabilities","type":"fp32","shape":[null,3]}]}
    ModelError: model "iris" has no input "nope"; it has: X
    RangeError: input "X": its arrays differ in length, or numbers are mixed with arrays
    ModelError: input "X": expected f32 [?, 4], got f32 [1, 2]
    TypeError: input "X" takes fp32, not "x"
    TypeError: input "X" takes fp32, not null
    ModelError: input "X": expected f32 [?, 4], got f32 []
    ModelError: input "X": expected f32 [?, 4], got f32 [1]
    RangeError: a tensor of shape [2,2] has 4 values, not 1
    ModelError: there is no model "other"; the job's models are "iris"
    ModelError: input "X": expected f32 [?, 4], got f32 [0]
    {"shape":[0,3],"values":{}}
    [0]
    "#);
}
