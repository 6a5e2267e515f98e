"""The dataset card: the code that it shows runs on the dataset that it describes."""

import re

from tests.factories import small_agents


def test_the_code_on_the_card_runs(tmp_path):
    small_agents.write_dataset(tmp_path)
    card = (tmp_path / "README.md").read_text("utf-8")
    code = re.findall(r"```python\n(.*?)```", card, re.S)[0]
    names: dict = {}
    exec(code.replace("PATH OF THIS FOLDER", str(tmp_path)), names)
    assert names["batch"]["player"].shape[:2] == (16, 64)
