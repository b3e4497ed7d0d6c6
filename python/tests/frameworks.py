"""`sandmill.udf` in Ray Data and in Spark. Run by `make test-frameworks`."""

import os
import shutil
import sys
import tempfile
import unittest
from pathlib import Path

PACKAGE = str(Path(__file__).resolve().parents[1] / "package/src")
sys.path.insert(0, PACKAGE)
# Workers of Ray and of Spark are separate processes.
os.environ["PYTHONPATH"] = PACKAGE
os.environ["PYSPARK_PYTHON"] = sys.executable

import sandmill  # noqa: E402

TWICE = "def run(table):\n    return table.select('id').with_columns(twice=[2 * id for id in table['id']])\n"
BAD = "def run(table):\n    raise ValueError('no luck')\n"
ROWS = 1000


class Frameworks(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)
        (self.folder / "twice.py").write_text(TWICE)
        (self.folder / "bad.py").write_text(BAD)

    def test_ray_data(self):
        import ray

        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
        self.addCleanup(ray.shutdown)
        data = ray.data.range(ROWS, override_num_blocks=4)
        twice = data.map_batches(sandmill.udf(self.folder / "twice.py", runtime="light"), batch_format="pyarrow", batch_size=100)
        rows = sorted((row["id"], row["twice"]) for row in twice.take_all())
        self.assertEqual(rows, [(id, 2 * id) for id in range(ROWS)])
        bad = data.map_batches(sandmill.udf(self.folder / "bad.py", runtime="light"), batch_format="pyarrow")
        with self.assertRaisesRegex(Exception, "no luck"):
            bad.take_all()

    @unittest.skipUnless(shutil.which("java"), "Spark needs Java")
    def test_spark(self):
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
        self.addCleanup(spark.stop)
        frame = spark.range(ROWS)
        twice = sandmill.udf(self.folder / "twice.py", runtime="light")
        rows = sorted(tuple(row) for row in frame.mapInArrow(twice.map_in_arrow, "id long, twice long").collect())
        self.assertEqual(rows, [(id, 2 * id) for id in range(ROWS)])
        bad = sandmill.udf(self.folder / "bad.py", runtime="light")
        with self.assertRaisesRegex(Exception, "no luck"):
            frame.mapInArrow(bad.map_in_arrow, "id long").collect()


if __name__ == "__main__":
    unittest.main()
