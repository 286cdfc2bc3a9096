"""Tables are written to CSV files so that spreadsheet programs read them correctly."""

import csv

import pytest

from accel_rl.results.table import Table


@pytest.mark.parametrize(
    "text", ["=1+1", "@SUM(1)", "+cmd|' /C calc'!A0", "-2+3+cmd|' /C calc'!A0", "\t=1", "\r=1", "=a\r=1", "--", "-e"]
)
def test_a_text_is_no_formula(tmp_path, text):
    file = Table("a", "", [text, "b"], [[text, "1"]]).write(tmp_path)
    with open(file, newline="") as f:
        cell = "'" + text.replace("\t", "\\t").replace("\r", "\\r")
        assert list(csv.reader(f)) == [[cell, "b"], [cell, "1"]]


@pytest.mark.parametrize(
    "text", ["-13.5", "+2", "-1,234.5", "-1e-05", "-.5", "-13.5*", "-3 %", "-", "", "a=b", "ALE/Pong-v5"]
)
def test_numbers_and_names_stay(tmp_path, text):
    file = Table("a", "", ["x"], [[text]]).write(tmp_path)
    with open(file, newline="") as f:
        assert list(csv.reader(f))[1] == [text] if text else True
