//! Models from Python scripts.

use insta::assert_snapshot;
use sandmill_tests::{TestJob, root};
use std::path::Path;

/// A script gets the same outputs as a component, and the host's error messages.
#[test]
fn a_script_computes_with_models() {
    let script = "from azureml.core.model import Model
from sandmill import models

def init():
    global iris
    iris = models.load('iris')
    print(models.names(), iris, Model.get_model_path('iris'))
    for bad in [{'nope': [[1.0]]}, [[1.0, 2.0], [1.0]], [[1.0, 2.0]], [['x']], [[1.0, 2.0, 3.0, None]]]:
        try:
            print(iris.run(bad))
        except (models.ModelError, TypeError, ValueError) as error:
            print(f'{type(error).__name__}: {error}')
    for name in ['other', 'iris']:
        try:
            print(Model.get_model_path(name) == models.load(name).name)
        except (models.ModelError, OSError) as error:
            print(f'{type(error).__name__}: {error}')

def run(table):
    outputs = iris.run({'X': [list(row) for row in table.select('a', 'b', 'c', 'd').tuples()]})
    assert outputs['probabilities'].shape == (len(table), 3)
    labels = outputs['label'].tolist()
    scores = outputs['probabilities'].tolist()
    return [f'{id} {label} {max(score):.3f}' for id, label, score in zip(table['id'], labels, scores)]
";
    let model = root().join("tests/models/logistic_regression.onnx");
    let ran = TestJob::new(Path::new("score.py"))
        .yaml(&format!("models: {{iris: {}}}", model.display()))
        .yaml("python: {runtime: light}\ninputs: {t: {path: t.csv, format: csv}}\nprocess_count_per_node: 1")
        .file("score.py", script)
        .file("t.csv", "id,a,b,c,d\n1,5.1,3.5,1.4,0.2\n2,6.3,3.3,6.0,2.5\n")
        .run(&[]);
    ran.exits_with(0);
    assert_snapshot!(ran.output(), @"
    1 0 0.982
    2 2 0.996
    ");
    assert_snapshot!(ran.log("user/stdout/0/process000.stdout.txt"), @r#"
    ['iris'] Model('iris', inputs=[Port('X', fp32, (None, 4))], outputs=[Port('label', i64, (None,)), Port('probabilities', fp32, (None, 3))]) /models/iris/logistic_regression.onnx
    ModelError: model 'iris' has no input 'nope'; it has: X
    ValueError: input 'X': its lists differ in length, or numbers are mixed with lists
    ModelError: input "X": expected f32 [?, 4], got f32 [1, 2]
    TypeError: input 'X' takes fp32: must be real number, not str
    TypeError: input 'X' takes fp32: must be real number, not NoneType
    FileNotFoundError: the job has no model 'other' (it has none); name it under `models:` of the job file
    False
    "#);
}
