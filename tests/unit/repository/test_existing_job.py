"""The page for an existing Spark job: the code runs in one file, and the command reads the offsets of Spark's checkpoint."""

import re
import subprocess
import sys
from pathlib import Path

from coordinator_tasks.service.offsets.position_rules import offsets_of

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "existing-job.md").read_text()
CHECKPOINT = """\
v1
{"batchWatermarkMs":0,"batchTimestampMs":1764403200000,"conf":{}}
{"texts":{"1":98,"0":120}}
"""
"""The file of a batch in the folder `offsets`, of a query with one Kafka source."""


def test_the_command_turns_a_batch_of_the_checkpoint_into_a_file_of_offsets(tmp_path: Path) -> None:
    (command,) = re.findall(r"^ *\.venv/bin/python -c \"(.*)\" \S+ > offsets\.csv$", PAGE, re.MULTILINE)
    (tmp_path / "41").write_text(CHECKPOINT)
    done = subprocess.run(
        [sys.executable, "-c", command, "41"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert offsets_of(done.stdout, {"texts": "texts-loader"}) == {"texts": {0: 120, 1: 98}}


def test_the_code_is_python_and_imports_what_is_there() -> None:
    before, after = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    for block in (before, after):
        compile(block, "existing-job.md", "exec")
    imports = re.findall(r"^(?:from|import) .*$", after, re.MULTILINE)
    subprocess.run([sys.executable, "-c", "\n".join(imports)], cwd=ROOT, check=True, timeout=120)
