//! A script must return the same rows in the science runtime and in ordinary CPython.

use crate::{cache, files, is_installed, make, native, table, text};
use insta::assert_snapshot;
use sandmill_tests::{TestJob, root};
use std::fmt::Write as _;
use std::path::Path;

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

/// The script fits a model of digits in `init`, and recognises the digits in image files.
#[test]
fn digits_in_images_are_recognised_the_same() {
    if !is_installed() {
        return;
    }
    let script = "import os
import numpy as np
from PIL import Image
from sklearn.linear_model import LogisticRegression
def init():
    global model
    digits = np.loadtxt(os.path.join(os.path.dirname(__file__), 'digits.csv'), delimiter=',')
    model = LogisticRegression(max_iter=200).fit(digits[:, :-1] / 240, digits[:, -1].astype(int))
def run(mini_batch):
    images = [Image.open(path).convert('L').resize((8, 8), Image.LANCZOS) for path in mini_batch]
    pixels = np.stack([np.asarray(image, dtype=float).ravel() for image in images]) / 240
    scores = model.predict_proba(pixels)
    return [f'{os.path.basename(path)} {label} {score.max():.9f}'
            for path, label, score in zip(mini_batch, model.predict(pixels), scores)]
";
    let make_images = "import os
from pathlib import Path
import numpy as np
from PIL import Image
example = Path('EXAMPLE')
labels = [int(line.split()[1]) for line in open(example / 'expected/digits.txt')]
os.makedirs('in')
known = []
for number, (path, label) in enumerate(zip(sorted(example.glob('data/images/*.png'))[:700], labels)):
    image = Image.open(path)
    if number < 200:
        image = image.resize((28, 28), Image.BICUBIC).convert(['L', 'RGB', 'P'][number % 3])
        image.save(f'in/{number:03}-{label}.png')
    else:
        known.append([*np.asarray(image).ravel(), label])
np.savetxt('source/digits.csv', known, '%d', ',')
";
    let example = root().join("examples/digit-identification");
    let job = files(script);
    make(&job, &make_images.replace("EXAMPLE", &text(&example)));
    let ran = job.run(&["--set", "mini_batch_size=25"]);
    ran.exits_with(0);
    let mut paths: Vec<String> = std::fs::read_dir(ran.dir().join("in"))
        .unwrap()
        .map(|entry| format!("in/{}", entry.unwrap().file_name().display()))
        .collect();
    paths.sort_unstable();
    let paths: Vec<&str> = paths.iter().map(String::as_str).collect();
    let rows = ran.sorted_output();
    assert_near(&rows, &native(ran.dir(), "files", &paths, None));
    // A row is `007-7.png 7 0.918633272`.
    let is_right = |row: &&String| row.get(4..5) == row.get(10..11);
    let right = rows.iter().filter(is_right).count();
    assert!(rows.len() == 200 && right > 160, "{right} of {} digits are right", rows.len());
}

/// Rule C8 in docs/parallel-run-step.md. The script fits a model for each combination of partition keys.
#[test]
fn many_models_are_fitted_the_same() {
    if !is_installed() {
        return;
    }
    let script = "import numpy as np
import pandas as pd
def run(mini_batch):
    sales = mini_batch.assign(week=pd.to_datetime(mini_batch['week'])).dropna(subset=['price']).sort_values('week')
    weeks = (sales['week'] - sales['week'].min()).dt.days / 7
    features = np.column_stack([np.ones(len(sales)), weeks, np.log(sales['price'])])
    demand = np.log(sales['quantity'])
    weights = np.linalg.lstsq(features[:-4], demand[:-4])[0]
    error = np.abs(np.expm1(features[-4:] @ weights - demand[-4:])).mean()
    group = sales.iloc[0]
    return pd.DataFrame({'store': [group['store']], 'brand': [group['brand']], 'rows': [len(sales)],
                         'trend': weights[1], 'elasticity': weights[2], 'error': error})
";
    let make_sales = "import numpy as np
import pandas as pd
random = np.random.default_rng(7)
rows = []
for store in range(1, 7):
    for brand in ['dominicks', 'minute maid', 'tropicana']:
        for week in pd.date_range('2024-01-07', periods=30 + store, freq='W'):
            price = round(random.uniform(1.5, 4), 2)
            quantity = np.exp(9 + store / 10 - 1.2 * np.log(price) + random.normal(0, 0.2))
            rows.append([store, brand, week.date(), None if random.random() < 0.05 else price, int(quantity)])
sales = pd.DataFrame(rows, columns=['store', 'brand', 'week', 'price', 'quantity'])
sales.sample(frac=1, random_state=1).to_csv('sales.csv', index=False)
";
    // For each group of many items, the script returns only one row. The missing rows count as
    // failed items.
    let job = TestJob::new(Path::new("source/score.py"))
        .yaml("inputs: {sales: {path: sales.csv, format: csv}}\npartition_keys: [store, brand]\nprocess_count_per_node: 2\nerror_threshold: -1")
        .file("source/score.py", script)
        .env("SANDMILL_CACHE_DIR", &text(&cache()));
    make(&job, make_sales);
    let ran = job.run(&[]);
    ran.exits_with(0);
    let rows = ran.sorted_output();
    assert_eq!(rows.len(), 18, "{rows:#?}");
    assert_near(&rows, &native(ran.dir(), "groups", &["sales.csv"], Some("store,brand")));
}

/// Compares the rows with those of native Python, in any order. Fractions may differ by a millionth, because
/// libraries of linear algebra add in different orders.
#[track_caller]
fn assert_near(rows: &[String], expected: &str) {
    let mut expected: Vec<&str> = expected.lines().collect();
    expected.sort_unstable();
    assert_eq!(rows.len(), expected.len(), "{rows:#?} {expected:#?}");
    for (row, expected) in rows.iter().zip(expected) {
        let (values, expected_values) = (row.split(' '), expected.split(' '));
        assert_eq!(
            values.clone().count(),
            expected_values.clone().count(),
            "{row}, not {expected}"
        );
        for (value, expected_value) in values.zip(expected_values) {
            let is_fraction = value.contains('.') || expected_value.contains('.');
            let is_near = match (value.parse::<f64>(), expected_value.parse::<f64>()) {
                (Ok(value), Ok(expected)) if is_fraction => (value - expected).abs() <= 1e-6,
                _ => value == expected_value,
            };
            assert!(is_near, "{row}, not {expected}");
        }
    }
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
