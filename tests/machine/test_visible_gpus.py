"""GPUs by index, by UUID and by part (MIG), as CUDA's driver reads CUDA_VISIBLE_DEVICES."""

import os
from pathlib import Path

import pytest

from accel_rl.machine import hardware
from accel_rl.machine.visible_gpus import gpu_names, visible_gpus

A, B, C = "GPU-5d2f0000-aaaa", "GPU-5d2f1111-bbbb", "GPU-90000000-cccc"
PART, OTHER = "MIG-41b3-1", "MIG-41b3-2"
UUIDS = {A: 0, B: 1, C: 2, PART: 2, OTHER: 2}
NVIDIA_SMI = f"""#!/bin/sh
case "$1" in
-L) cat <<'END'
GPU 0: NVIDIA A100 (UUID: {A})
GPU 1: NVIDIA A100 (UUID: {B})
GPU 2: NVIDIA A100 (UUID: {C})
  MIG 1g.5gb     Device  0: (UUID: {PART})
  MIG 1g.5gb     Device  1: (UUID: {OTHER})
END
;;
*) printf '0, 00000000:07:00.0, {A}\\n1, 00000000:0A:00.0, {B}\\n2, 00000000:47:00.0, {C}\\n' ;;
esac
"""


@pytest.mark.parametrize(
    ("visible", "shown"),
    [
        ("0,1", {0: 0, 1: 1}),
        ("2, 0", {2: 2, 0: 0}),
        ("1,-1,2", {1: 1}),  # CUDA ignores the invalid entry -1 and all entries after -1.
        ("-1", {}),
        ("1,7,2", {1: 1}),
        ("1,1", {}),
        ("", {}),
        ("NoDevFiles", {}),
        (f"{B},{A}", {0: 1, 1: 0}),
        ("GPU-9", {0: 2}),
        ("GPU-5d2f", {}),  # two GPUs
        (f"GPU-9,GPU-f,{A}", {0: 2}),
        (f"{C},GPU-9", {}),
        (PART, {0: 2}),
        (f"{PART},{OTHER}", {0: 2, 1: 2}),
        (f"1,{C}", {0: 1, 1: 2}),
    ],
)
def test_names_are_read_as_by_the_driver(visible, shown):
    assert visible_gpus(visible, UUIDS) == shown


@pytest.fixture
def nvidia_smi(tmp_path, monkeypatch):
    (tmp_path / "nvidia-smi").write_text(NVIDIA_SMI)
    (tmp_path / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)


@pytest.mark.parametrize(
    ("visible", "gpus", "of_child"),
    [
        (None, (0, 1, 2), "2"),
        ("1,2", (1, 2), "2"),
        (f"{C},GPU-5d2f1", (0, 1), "GPU-5d2f1"),
        (PART, (0,), PART),
        ("", (), ""),
    ],
)
def test_a_childs_gpus_are_named_as_this_processs(visible, gpus, of_child, nvidia_smi, monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert hardware.this_machine().gpus == gpus
    assert gpu_names(gpus[-1:]) == of_child
    assert gpu_names([]) == ""


def test_an_unknown_name_is_said(nvidia_smi, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "GPU-77")
    with pytest.warns(UserWarning, match="CUDA_VISIBLE_DEVICES=GPU-77: the driver shows no GPU"):
        assert hardware.this_machine().gpus == ()


def test_without_a_driver_there_is_no_gpu(tmp_path: Path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    assert hardware.this_machine().gpus == ()
