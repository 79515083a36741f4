"""The bundled kernels by name; each module is imported only when it is asked for."""

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType

# Adding a kernel: one file and one line here.
MODULES: dict[str, str] = {
    "2mm": "kernels.polybench.two_mm",
    "3mm": "kernels.polybench.three_mm",
    "adi": "kernels.polybench.adi",
    "atax": "kernels.polybench.atax",
    "bicg": "kernels.polybench.bicg",
    "cholesky": "kernels.polybench.cholesky",
    "correlation": "kernels.polybench.correlation",
    "covariance": "kernels.polybench.covariance",
    "deriche": "kernels.polybench.deriche",
    "doitgen": "kernels.polybench.doitgen",
    "durbin": "kernels.polybench.durbin",
    "fdtd-2d": "kernels.polybench.fdtd_2d",
    "floyd-warshall": "kernels.polybench.floyd_warshall",
    "gemm": "kernels.polybench.gemm",
    "gemver": "kernels.polybench.gemver",
    "gesummv": "kernels.polybench.gesummv",
    "gramschmidt": "kernels.polybench.gramschmidt",
    "heat-3d": "kernels.polybench.heat_3d",
    "jacobi-1d": "kernels.polybench.jacobi_1d",
    "jacobi-2d": "kernels.polybench.jacobi_2d",
    "lu": "kernels.polybench.lu",
    "ludcmp": "kernels.polybench.ludcmp",
    "mvt": "kernels.polybench.mvt",
    "nussinov": "kernels.polybench.nussinov",
    "seidel-2d": "kernels.polybench.seidel_2d",
    "symm": "kernels.polybench.symm",
    "syr2k": "kernels.polybench.syr2k",
    "syrk": "kernels.polybench.syrk",
    "trisolv": "kernels.polybench.trisolv",
    "trmm": "kernels.polybench.trmm",
    "blur": "kernels.extra.blur",
    "conv2d": "kernels.extra.conv2d",
    "layernorm": "kernels.extra.layernorm",
    "lcs": "kernels.extra.lcs",
    "matmul": "kernels.extra.matmul",
    "matmul-float32": "kernels.extra.matmul_float32",
    "matvec": "kernels.extra.matvec",
    "mttkrp": "kernels.extra.mttkrp",
}


@dataclass(frozen=True, slots=True)
class KernelEntry:
    """One bundled kernel: its name, its suite (`polybench` or `extra`), its module's path and its function's name."""

    name: str
    suite: str
    module: str
    function: str

    def load(self) -> ModuleType:
        """The kernel's module, with the function, `SIZES`, `OUTPUTS` and `make_inputs`."""
        return importlib.import_module(self.module)

    def load_function(self) -> Callable[..., None]:
        """The kernel's loop function."""
        return getattr(self.load(), self.function)


def names() -> tuple[str, ...]:
    """The names of all bundled kernels: PolyBench first, each suite in alphabetical order."""
    return tuple(MODULES)


def entry(name: str) -> KernelEntry:
    """The entry of the kernel called `name`; KeyError(name) if there is none."""
    module = MODULES[name]
    _, suite, function = module.split(".")
    return KernelEntry(name, suite, module, function)


def load(name: str) -> ModuleType:
    """The module of the kernel called `name`; KeyError(name) if there is none."""
    return entry(name).load()
