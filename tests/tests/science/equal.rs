//! What scripts return, equal row by row to what they return in ordinary CPython.

use crate::{files, is_installed, make, native, table};
use std::fmt::Write as _;

/// Ten stores' sales, as in "many models": whole numbers, floats with nulls, text, dates and truth values.
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
fn frames_are_computed_as_pandas_computes_them() {
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
    let made = "import os
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
    make(&job, made);
    let ran = job.run(&[]);
    ran.exits_with(0);
    let paths = ["in/a.png", "in/b.png", "in/c.xlsx", "in/d.txt"];
    assert_eq!(ran.output(), native(ran.dir(), "files", &paths, None));
}
