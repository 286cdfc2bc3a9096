"""The C++ extension only; everything else is in setup.cfg. Where it cannot be built, the install goes on without it."""

from pathlib import Path

from pybind11.setup_helpers import Pybind11Extension
from setuptools import setup
from setuptools.command.build_ext import build_ext


class OptionalBuild(build_ext):
    """Says in one line what to do where there is no compiler, instead of failing."""

    def build_extension(self, ext: Pybind11Extension) -> None:
        try:
            super().build_extension(ext)
        except Exception as error:
            print(
                f"accel_rl: the emulator was not built ({type(error).__name__}); ale-py is used instead. "
                "Install g++ or clang++ (C++17) and reinstall to have it."
            )


emulator = Pybind11Extension(
    "accel_rl.emulator._core",
    ["accel_rl/emulator/binding.cpp"],
    cxx_std=17,
    extra_compile_args=["-O3"],
    depends=["accel_rl/emulator/emulator.h", *map(str, Path("accel_rl/emulator/core").glob("*.h"))],
)
emulator.optional = True

setup(ext_modules=[emulator], cmdclass={"build_ext": OptionalBuild})
