"""Triton's interpreter, in which kernels are tested where there is no GPU."""

from __future__ import annotations

import importlib.util
import os
from typing import Any


def interpret_kernels() -> None:
    """To be called before anything imports kernels: how they run is decided where they are defined."""
    import torch

    if torch.cuda.is_available():
        return
    os.environ["TRITON_INTERPRET"] = "1"
    if importlib.util.find_spec("triton"):
        _let_scalars_be_bounds()
        _name_e4m3fnuz()
        _patch_once_a_launch()
        _make_types_once()


def _let_scalars_be_bounds() -> None:
    """Lets ``range`` take loaded bounds: the interpreter's scalars are arrays [1], of which numpy 2.4 makes no int."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_tensor

    def with_index(tensor: Any, scope: Any) -> None:
        patch(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    interpreter._patch_lang_tensor = with_index


def _name_e4m3fnuz() -> None:
    """Adds AMD's float8 to the names of types: the interpreter converts to it, but does not look for its name."""
    from triton.runtime import interpreter

    patch = interpreter._patch_lang_core

    def with_e4m3fnuz(lang: Any, scope: Any) -> None:
        patch(lang, scope)
        to_ir = lang.dtype.to_ir
        scope.set_attr(lang.dtype, "to_ir", lambda t, builder: t if t.name == "fp8e4b8" else to_ir(t, builder))

    interpreter._patch_lang_core = with_e4m3fnuz


def _patch_once_a_launch() -> None:
    """Patches the language at the first call of a launch: the interpreter does it again for each call of a function in
    a kernel, to the same effect, and that is a third of its time."""
    from triton.runtime import JITFunction, interpreter

    patch, language = interpreter._patch_lang, (interpreter.tl, interpreter.tl.core)
    modules: dict[Any, tuple[int, ...]] = {}  # the modules of the language that a function sees
    patched: set[tuple[int, ...]] = set()

    def patch_first(function: Any) -> Any:
        if function not in modules:
            seen = function.__globals__.values()
            modules[function] = tuple(id(module) for module in language if any(value is module for value in seen))
        # A function that is called outside of any launch leaves its modules behind in `patched`.
        if modules[function] in patched and not isinstance(interpreter.tl.max, JITFunction):
            return interpreter._LangPatchScope()
        patched.add(modules[function])
        scope = patch(function)
        restore = scope.restore

        def end_launch() -> None:  # called for the kernel's own scope only
            patched.clear()
            restore()

        scope.restore = end_launch
        return scope

    interpreter._patch_lang = patch_first


def _make_types_once() -> None:
    """Keeps the shapes of tensors and numpy's types: to make them anew for each operation is half of its time."""
    from triton.language import core
    from triton.runtime import interpreter

    make_block, make_tensor, numpy_type = core.block_type.__init__, core.tensor.__init__, interpreter._get_np_dtype
    blocks: dict[tuple[int, ...], tuple[Any, int]] = {}  # shape and number of elements, as types have them
    tensors: dict[tuple[int, ...], tuple[Any, Any]] = {}  # and as tensors do
    numpy_types: dict[str, Any] = {}

    def init_block(block: Any, element_ty: Any, shape: Any) -> None:
        sizes = tuple([size.value if isinstance(size, core.constexpr) else size for size in shape])
        if sizes not in blocks:
            make_block(block, element_ty, shape)
            blocks[sizes] = block.shape, block.numel
        block.element_ty, block.name = element_ty, f"<{sizes}, {element_ty}>"
        block.shape, block.numel = blocks[sizes]

    def init_tensor(tensor: Any, handle: Any, of: Any) -> None:
        sizes = tuple(of.shape.values) if of.is_block() else ()
        if sizes not in tensors:
            make_tensor(tensor, handle, of)
            tensors[sizes] = tensor.shape, tensor.numel
        tensor.handle, tensor.type, tensor.dtype = handle, of, of.scalar
        tensor.shape, tensor.numel = tensors[sizes]

    def find_numpy_type(of: Any) -> Any:
        name = of.scalar.name
        if name not in numpy_types:
            numpy_types[name] = numpy_type(of)
        return numpy_types[name]

    core.block_type.__init__, core.tensor.__init__ = init_block, init_tensor
    interpreter._get_np_dtype = find_numpy_type
