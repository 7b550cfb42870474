"""Why a name of one of PyTorch's modules is none here, by the module."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn


def _by_name(*groups: tuple[str, str]) -> dict[str, str]:
    return {name: reason for reason, names in groups for name in names.split()}


_GRAPHS: Final = "work is replayed by compiled functions, as of torch.compile, not by captured CUDA graphs"
_ALLOCATOR: Final = "the allocator has no such switch; empty_cache() and memory_stats() are there"
_NO_SPARSE: Final = "there are no sparse tensors"
_PIPES: Final = "data pipes were given up by PyTorch; a Dataset or IterableDataset does what they did"
_INSIDE: Final = "it is a part of PyTorch's own implementation"

OF_MODULES: Final[dict[str, dict[str, str]]] = {
    "torch": _by_name(
        ("jitgraph.onnx.export writes ONNX models, and jitgraph.onnx.load reads them", "onnx"),
        (_INSIDE, "_C _inductor _jit_internal _tensor _tensor_str _utils contrib"),
    ),
    "torch.nn": _by_name(
        ("one process computes here, so that statistics of a batch are those of all; BatchNorm2d", "SyncBatchNorm"),
        ("there are no quantised tensors", "intrinsic qat quantizable quantized"),
        ("torch.func.vjp of functional.conv2d and its kind gives these", "grad"),
    ),
    "torch.accelerator": _by_name((_GRAPHS, "Graph"), (_ALLOCATOR, "empty_host_cache")),
    "torch.autograd.graph": _by_name(
        ("values are never written, so they have no versions", "increment_version"),
        ("jitgraph.checkpoint says what is computed again", "region_activation_memory_budget"),
        (_INSIDE, "set_override_stale_capture_stream set_warn_on_accumulate_grad_stream_mismatch"),
    ),
    "torch.compiler": _by_name(
        (
            "compiled code and traces are cached on disk by themselves: jitgraph.cache",
            "CacheInfo load_cache_artifacts load_compiled_function save_cache_artifacts",
        ),
        ("the options of torch.compile are those of jitgraph.script; flags are in docs/flags.md", "config"),
        ("the compiler is always jitgraph's", "get_default_backend set_default_backend"),
        (
            "guards are what makes a trace right, and all are checked",
            "keep_portable_guards_unsafe keep_tensor_guards_unsafe set_enable_guard_collectives skip_all_guards_unsafe "
            "skip_guard_on_all_nn_modules_unsafe skip_guard_on_globals_unsafe skip_guard_on_inbuilt_nn_modules_unsafe",
        ),
        ("jitgraph.custom_op gives a function a form that compiles", "substitute_in_graph"),
        ("functions of NumPy take tensors in traces as they are", "wrap_numpy"),
    ),
    "torch.nn.attention": _by_name(
        (
            "there is one implementation, which the compiler chooses",
            "activate_flash_attention_impl current_flash_attention_impl list_flash_attention_impls "
            "register_flash_attention_impl restore_flash_attention_impl",
        ),
    ),
    "torch.profiler": _by_name(
        (_INSIDE, "DeviceType ExecutionTraceObserver kineto_available"),
    ),
    "torch.testing": _by_name(("PyTorch gave it up for assert_close", "assert_allclose")),
    "torch.utils": _by_name(
        (
            "TensorBoard's own tensorboard.summary.Writer writes its files, or tensorboardX's SummaryWriter; both "
            "take float(loss) and x.numpy()",
            "tensorboard",
        ),
        ("jitgraph.custom_op makes kernels of formulas, and custom_vjp ops with gradients", "cpp_extension"),
        (
            "timeit and jitgraph.profiler measure; calls give their results when they return",
            "benchmark",
        ),
        ("torch.hub.load_state_dict_from_url downloads weights", "model_zoo"),
        ("jitgraph.profiler counts the work of kernels", "flop_counter"),
        ("jitgraph.save writes files that run without jitgraph", "mobile_optimizer bundled_inputs"),
        (_INSIDE, "backend_registration backcompat collect_env hooks show_pickle throughput_benchmark weak _pytree"),
        (_INSIDE, "_python_dispatch"),
    ),
    "torch.nn.functional": _by_name(
        ("there are no 8-bit floats", "ScalingType SwizzleType scaled_mm scaled_grouped_mm"),
        ("torch.bmm, or a loop over the groups, computes products of groups", "grouped_mm"),
        (
            _INSIDE,
            "BroadcastingList1 BroadcastingList2 BroadcastingList3 assert_int_or_pair boolean_dispatch "
            "handle_torch_function has_torch_function has_torch_function_unary has_torch_function_variadic",
        ),
    ),
    "torch.nn.utils.rnn": _by_name((_INSIDE, "PackedSequence_ bind copy_method_params")),
    "torch.nn.utils.parametrize": _by_name(
        (_INSIDE, "OpaqueBase get_swap_module_params_on_conversion is_opaque_reference_type"),
        (_INSIDE, "is_traceable_wrapper_subclass"),
    ),
    "torch.optim": _by_name(
        (f"{_NO_SPARSE}, nor gradients: Adam", "SparseAdam"),
        (_INSIDE, "swap_in_optimizer_params_and_state"),
    ),
    "torch.utils.data": _by_name(
        (
            _PIPES,
            "DFIterDataPipe DataChunk IterDataPipe MapDataPipe argument_validation functional_datapipe "
            "guaranteed_datapipes_determinism non_deterministic runtime_validation runtime_validation_disabled",
        ),
        (_INSIDE, "_DatasetKind"),
    ),
    "torch.utils.checkpoint": _by_name(
        (
            "what is saved are a function's arguments and results; the rest is computed again",
            "CheckpointPolicy SAC_IGNORED_OPS SelectiveCheckpointContext create_selective_checkpoint_contexts",
        ),
        (
            _INSIDE,
            "CheckpointFunction DefaultDeviceType GraphExecGroup LoggingTensorMode SavedTensor TorchDispatchMode "
            "capture_logs check_backward_validity detach_variable get_device_states set_device_states tree_map",
        ),
    ),
    "torch.cuda": _by_name(
        (_GRAPHS, "CUDAGraph graph graph_pool_handle graphs make_graphed_callables"),
        (
            _ALLOCATOR,
            "CUDAPluggableAllocator MemPool caching_allocator_alloc caching_allocator_delete "
            "caching_allocator_disabled caching_allocator_enable change_current_allocator "
            "get_per_process_memory_fraction host_memory_stats host_memory_stats_as_nested_dict memory_snapshot "
            "memory_stats_as_nested_dict reset_accumulated_host_memory_stats reset_peak_host_memory_stats "
            "set_per_process_memory_fraction use_mem_pool",
        ),
        (
            "nvidia-smi tells of all processes and of the state of the board",
            "clock_rate device_memory_used list_gpu_processes memory_usage power_draw temperature utilization",
        ),
        (
            "the driver is called directly, without the runtime library; jitgraph.cuda has what is asked of it",
            "check_error cudaStatus cudart current_blas_handle current_solver_handle",
        ),
        ("streams are made here: torch.cuda.Stream()", "ExternalStream GreenContext get_stream_from_external"),
        ("jitgraph.custom_op makes kernels of formulas", "jiterator"),
        ("one process computes here, on one GPU at a time", "nccl"),
        ("jitgraph.profiler measures", "nvtx profiler"),
        ("there is one generator for all devices: torch.default_generator", "default_generators"),
        (f"{_NO_SPARSE}", "sparse"),
        ("kernels are generated, and chosen when they are compiled", "tunable"),
        (
            "the memory of a tensor is not visible; numpy() gives the elements",
            "BFloat16Storage BoolStorage ByteStorage CharStorage ComplexDoubleStorage ComplexFloatStorage "
            "DoubleStorage FloatStorage HalfStorage IntStorage LongStorage ShortStorage",
        ),
        (
            "classes of old name no device; torch.tensor(..., device='cuda')",
            "BFloat16Tensor BoolTensor ByteTensor CharTensor DoubleTensor FloatTensor HalfTensor IntTensor LongTensor "
            "ShortTensor",
        ),
        (_INSIDE, "AcceleratorError DeferredCudaCallError classproperty"),
    ),
}
"""Why a name of one of PyTorch's modules is none here, by the module."""


def refusal(module: str) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a module of PyTorch's without a stub: AttributeError, with the reason if there is one."""

    def attribute(name: str) -> NoReturn:
        raise missing(module, name)

    return attribute


def missing(module: str, name: str) -> AttributeError:
    """The AttributeError for a name that a module ("torch.nn") lacks, with the reason where there is one."""
    reason = OF_MODULES.get(module, {}).get(name)
    what = f"module '{module}' has no attribute '{name}'"
    return AttributeError(what if reason is None else f"{what}: {reason}")
