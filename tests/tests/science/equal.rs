//! A script must return the same rows in the science runtime and in ordinary CPython.

use crate::{cache, files, is_installed, make, native, table, text};
use insta::assert_snapshot;
use sandmill_tests::{TestJob, root};
use std::fmt::Write as _;

/// The sales of ten stores as CSV: whole numbers, floats with nulls, text, dates and booleans.
fn sales() -> String {
    let mut csv = String::from("store,day,price,amount,note,open\n");
    for row in 0..60 {
        let price = if row % 11 == 3 {
            String::new()
        } else {
            format!("{}.{:02}", row * 7 % 50, row * 37 % 100)
        };
        let note = if row % 13 == 5 { "" } else { ["é", "a b", "x"][row % 3] };
        let _ = writeln!(
            csv,
            "{},2024-01-{:02},{price},{},{note},{}",
            row % 10,
            row % 28 + 1,
            row * row,
            ["true", "false"][row % 2]
        );
    }
    csv
}

#[test]
fn data_frames_equal_those_of_native_pandas() {
    if !is_installed() {
        return;
    }
    let script = "import numpy as np
import pandas as pd
def run(mini_batch):
    frame = mini_batch.copy()
    frame['total'] = frame['price'].fillna(0) * frame['amount'] + np.sqrt(frame['amount'])
    frame['share'] = frame.groupby('open')['total'].transform(lambda part: part / part.sum())
    frame.loc[frame['amount'] > 100, 'store'] += 1
    return frame[['store', 'total', 'share', 'note', 'open']]
";
    let ran = table(script, &sales()).run(&[]);
    ran.exits_with(0);
    assert_eq!(ran.output(), native(ran.dir(), "table", &["t.csv"], Some("7")));
}

#[test]
fn models_of_scikit_learn_predict_the_same() {
    if !is_installed() {
        return;
    }
    let script = "import os, pickle
import numpy as np
def init():
    global model
    with open(os.path.join(os.path.dirname(__file__), 'model.pkl'), 'rb') as file:
        model = pickle.load(file)
def run(mini_batch):
    rows = []
    for path in mini_batch:
        data = np.loadtxt(path, delimiter=',')
        rows += [f'{os.path.basename(path)} {label} {probability.max():.12f}'
                 for label, probability in zip(model.predict(data), model.predict_proba(data))]
    return rows
";
    let make_model = "import os, pickle
import numpy as np
from sklearn.datasets import load_iris
from sklearn.ensemble import RandomForestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
iris = load_iris()
model = make_pipeline(StandardScaler(), RandomForestClassifier(20, random_state=1)).fit(iris.data, iris.target)
pickle.dump(model, open('source/model.pkl', 'wb'))
os.makedirs('in')
for number in range(4):
    np.savetxt(f'in/{number}.csv', iris.data[number::4], delimiter=',')
";
    let job = files(script);
    make(&job, make_model);
    let ran = job.run(&[]);
    ran.exits_with(0);
    let paths = ["in/0.csv", "in/1.csv", "in/2.csv", "in/3.csv"];
    assert_eq!(ran.output(), native(ran.dir(), "files", &paths, None));
}

#[test]
fn images_workbooks_and_text_are_read_the_same() {
    if !is_installed() {
        return;
    }
    let script = "import hashlib, os
import openpyxl
from PIL import Image
def run(mini_batch):
    rows = []
    for path in sorted(mini_batch):
        name = os.path.basename(path)
        if name.endswith('.png'):
            image = Image.open(path).convert('L').resize((8, 8), Image.BILINEAR)
            rows.append(f'{name} {image.size} {hashlib.md5(image.tobytes()).hexdigest()}')
        elif name.endswith('.xlsx'):
            sheet = openpyxl.load_workbook(path).active
            rows.append(f'{name} {[cell.value for row in sheet for cell in row]}')
        else:
            words = open(path, encoding='utf-8').read().split()
            rows.append(f'{name} {len(words)} {max(words, key=len)}')
    return rows
";
    let make_files = "import os
import openpyxl
from PIL import Image
os.makedirs('in')
Image.radial_gradient('L').save('in/a.png')
Image.linear_gradient('L').convert('RGB').save('in/b.png')
book = openpyxl.Workbook()
book.active.append([1, 'two', 3.5, None, True])
book.save('in/c.xlsx')
open('in/d.txt', 'w', encoding='utf-8').write('ein größeres Wort')
";
    let job = files(script);
    make(&job, make_files);
    let ran = job.run(&[]);
    ran.exits_with(0);
    let paths = ["in/a.png", "in/b.png", "in/c.xlsx", "in/d.txt"];
    assert_eq!(ran.output(), native(ran.dir(), "files", &paths, None));
}

/// Compares `examples/iris/python` with scikit-learn's predictions.
#[test]
fn the_example_equals_scikit_learn() {
    if !is_installed() {
        return;
    }
    let example = root().join("examples/iris");
    let ran = TestJob::empty().env("SANDMILL_CACHE_DIR", &text(&cache())).command(&[
        "run",
        &text(&example.join("python/job.yaml")),
        "--job-dir",
        "job",
    ]);
    ran.exits_with(0);
    let expected = std::fs::read_to_string(example.join("expected/iris.txt")).unwrap();
    let mut expected: Vec<_> = expected.lines().collect();
    expected.sort_unstable();
    assert_eq!(ran.sorted_output(), expected);
}

/// Rule O8 in docs/parallel-run-step.md. Uses the script and the job in docs/entry-scripts.md.
#[test]
fn a_model_of_mlflow_is_scored_as_by_an_endpoint() {
    if !is_installed() {
        return;
    }
    let page = std::fs::read_to_string(root().join("docs/entry-scripts.md")).unwrap();
    let (_, section) = page.split_once("### Models that MLflow saved").expect("the page has it");
    let block = |kind: &str| {
        let (_, rest) = section.split_once(&format!("```{kind}\n")).expect("an example");
        rest.split_once("```").expect("its end").0.to_owned()
    };
    let job = TestJob::empty()
        .file("score.py", block("python"))
        .file("job.yaml", block("yaml"))
        .env("SANDMILL_CACHE_DIR", &text(&cache()));
    make(
        &job,
        "import os, pickle
import pandas as pd
from sklearn.linear_model import LogisticRegression
train = pd.DataFrame({'x': [0.0, 1.0, 2.0, 3.0], 'y': [1.0, 0.0, 1.0, 0.0]})
os.makedirs('model'), os.makedirs('data')
pickle.dump(LogisticRegression().fit(train, ['low', 'low', 'high', 'high']), open('model/model.pkl', 'wb'))
open('model/MLmodel', 'w').write('''flavors:
  python_function: {loader_module: mlflow.sklearn, model_path: model.pkl}
  sklearn: {pickled_model: model.pkl, serialization_format: pickle, sklearn_version: 1.9.1}
''')
train[:3].to_csv('data/a.csv', index=False)
train[3:].to_csv('data/b.csv', index=False)
",
    );
    let ran = job.command(&["run", "job.yaml", "--job-dir", "job"]);
    ran.exits_with(0);
    let rows = ran.sorted_output();
    assert_snapshot!(rows.join("\n"), @"
    0,high,b.csv
    0,low,a.csv
    1,low,a.csv
    2,high,a.csv
    row,prediction,file_name
    ");
}
