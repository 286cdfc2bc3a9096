"""Builds the C++ extensions and the types of settings, and describes the project by README.md; all other packaging is
in setup.cfg. If an extension cannot be compiled, the installation continues without the extension.

With ACCEL_RL_REQUIRE_EXTENSIONS=1 a missing extension is an error, because a wheel must contain both extensions. A
release sets REPOSITORY_URL, for the links on the page of a package index.
"""

import hashlib
import os
import re
import runpy
from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import setup
from setuptools.command.build_ext import build_ext


class OptionalBuild(build_ext):
    """Builds the extensions in parallel. Without a compiler, the build prints one line with a remedy, instead of
    failing."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()

    def build_extension(self, ext: Pybind11Extension) -> None:
        if self.compiler.compiler_type == "msvc":  # The compiler MSVC does not have the flags.
            ext.extra_compile_args = [flag for flag in ext.extra_compile_args if flag.startswith("/")] + ["/O2"]
            ext.extra_link_args = []
        try:
            super().build_extension(ext)
        except Exception as error:
            if REQUIRED:
                raise
            print(
                f"accel_rl: {ext.name} was not built ({type(error).__name__}); {INSTEAD[ext.name]} instead. "
                "Install g++ or clang++ (C++17) and reinstall to have it."
            )


def description(url: str) -> str:
    """Return README.md. With a repository's URL, links are absolute, because a package index has no other files."""
    text = Path(__file__).with_name("README.md").read_text()
    if not url:
        return text
    text = re.sub(r"(!\[[^]]*\]\()(?!https?:)", rf"\1{url}/raw/main/", text)
    return re.sub(r"(?<!!)(\[[^]]*\]\()(?!https?:)", rf"\1{url}/blob/main/", text)


def links(url: str) -> dict[str, str]:
    """Return the links of the project beside its page on a package index."""
    if not url:
        return {}
    pages = {"Documentation": "blob/main/docs/README.md", "Changelog": "blob/main/CHANGELOG.md", "Issues": "issues"}
    return {"Source": url, **{name: f"{url}/{page}" for name, page in pages.items()}}


def hash_of_headers() -> str:
    """Return the hash by which accel_rl.emulator.translation finds that the headers are those of the extension."""
    folder = Path(__file__).parent / "accel_rl/emulator"
    content = b"".join(file.read_bytes() for file in sorted(folder.glob("core/**/*.h")) + [folder / "translation.h"])
    return hashlib.sha256(content).hexdigest()


URL = os.environ.get("REPOSITORY_URL", "").rstrip("/")
REQUIRED = os.environ.get("ACCEL_RL_REQUIRE_EXTENSIONS", "0") != "0"
INSTEAD = {
    "accel_rl.emulator._core": "ale-py plays",
    "accel_rl.kernels._native": "torch gathers frames, draws from replays, and computes convolutions and small layers",
}
emulator = Pybind11Extension(
    "accel_rl.emulator._core",
    ["accel_rl/emulator/binding.cpp"],
    cxx_std=17,
    # The flag disables fused multiply-add, so that areas of pictures are rounded as on a CPU without fused
    # multiply-add.
    extra_compile_args=["-O3", "-ffp-contract=off", "-pthread"],
    define_macros=[("ACCEL_RL_SOURCES", f'"{hash_of_headers()}"')],
    extra_link_args=["-pthread"],
    depends=[*map(str, Path("accel_rl/emulator").rglob("*.h"))],
)
# The flag disables fused multiply-add, so that returns equal torch's bit for bit.
host = Pybind11Extension(
    "accel_rl.kernels._native",
    ["accel_rl/kernels/src/module.cpp"],
    cxx_std=17,
    depends=[str(path) for path in Path("accel_rl/kernels/src").rglob("*.h")],
    extra_compile_args=["-O3", "-ffp-contract=off", "-fno-math-errno", "-pthread"],
    extra_link_args=["-pthread"],
)
emulator.optional = host.optional = not REQUIRED

runpy.run_path(str(Path(__file__).with_name("settings_stub.py")))["write"]()
setup(
    ext_modules=[emulator, host],
    cmdclass={"build_ext": OptionalBuild},
    long_description=description(URL),
    long_description_content_type="text/markdown",
    project_urls=links(URL),
)
