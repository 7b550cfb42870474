"""The names of PyTorch that have no place here, with the reasons, which the errors say."""

from __future__ import annotations

import functools
from typing import Final

from jitgraph.torch import module_reasons

_GROUPS: Final[dict[str, str]] = {
    "there are no sparse tensors": """
        to_sparse to_sparse_bsc to_sparse_bsr to_sparse_coo to_sparse_csc to_sparse_csr sparse sparse_bsc
        sparse_bsc_tensor sparse_bsr sparse_bsr_tensor sparse_compressed_tensor sparse_coo sparse_coo_tensor sparse_csc
        sparse_csc_tensor sparse_csr sparse_csr_tensor sparse_dim sparse_mask sparse_resize_ sparse_resize_and_clear_
        resize_as_sparse_ dense_dim coalesce indices values ccol_indices col_indices crow_indices row_indices
        ccol_indices_copy col_indices_copy crow_indices_copy row_indices_copy indices_copy values_copy dsmm hsmm hspmm
        saddmm smm spmm sspaddmm""",
    "there are no quantised tensors": """
        choose_qparams_optimized dequantize empty_quantized fake_quantize_per_channel_affine
        fake_quantize_per_tensor_affine fbgemm_linear_fp16_weight fbgemm_linear_fp16_weight_fp32_activation
        fbgemm_linear_int8_weight fbgemm_linear_int8_weight_fp32_activation fbgemm_linear_quantize_weight
        fbgemm_pack_gemm_matrix_fp16 fbgemm_pack_quantized_matrix fused_moving_avg_obs_fake_quant int_repr
        per_channel_affine per_channel_affine_float_qparams per_channel_symmetric per_tensor_affine
        per_tensor_symmetric q_per_channel_axis q_per_channel_scales q_per_channel_zero_points q_scale q_zero_point
        qint32 qint8 qscheme quantization ao quantize_per_channel quantize_per_tensor quantize_per_tensor_dynamic
        quantized_batch_norm quantized_gru quantized_gru_cell quantized_lstm quantized_lstm_cell quantized_max_pool1d
        quantized_max_pool2d quantized_max_pool3d quantized_rnn_relu_cell quantized_rnn_tanh_cell quint2x4 quint4x2
        quint8 QInt32Storage QInt8Storage QUInt2x4Storage QUInt4x2Storage QUInt8Storage""",
    "a tensor's memory is not visible; numpy() gives the elements": """
        untyped_storage storage Storage StorageBase TypedStorage UntypedStorage BFloat16Storage BoolStorage ByteStorage
        CharStorage ComplexDoubleStorage ComplexFloatStorage DoubleStorage FloatStorage HalfStorage IntStorage
        LongStorage ShortStorage""",
    "tensors are shared with other processes as NumPy arrays are": "share_memory_",
    "there are no nested tensors": "nested jagged to_padded_tensor",
    "there is no such dtype": """
        bit bits16 bits1x8 bits2x4 bits4x2 bits8 int1 int2 int3 int4 int5 int6 int7 uint1 uint2 uint3 uint4 uint5
        uint6 uint7 float4_e2m1fn_x2 float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz float8_e8m0fnu
        complex32 chalf""",
    "tensors lie on the CPU or on NVIDIA GPUs": """
        ipu mps mtia xpu to_mkldnn mkldnn_adaptive_avg_pool2d mkldnn_convolution
        mkldnn_linear_backward_weights mkldnn_max_pool2d mkldnn_max_pool3d mkldnn_rnn_layer miopen_batch_norm
        miopen_convolution miopen_convolution_add_relu miopen_convolution_relu miopen_convolution_transpose
        miopen_ctc_loss miopen_depthwise_convolution miopen_rnn autocast_decrement_nesting autocast_increment_nesting
        get_autocast_ipu_dtype get_autocast_xla_dtype is_autocast_ipu_enabled is_autocast_xla_enabled
        set_autocast_ipu_dtype set_autocast_ipu_enabled set_autocast_xla_dtype set_autocast_xla_enabled""",
    "the functions without cudnn in their names compute the same": """
        cudnn_affine_grid_generator cudnn_batch_norm cudnn_convolution cudnn_convolution_add_relu
        cudnn_convolution_relu cudnn_convolution_transpose cudnn_grid_sampler cudnn_is_acceptable""",
    "it serves synchronised batch norm of several processes": """
        batch_norm_backward_elemt batch_norm_backward_reduce batch_norm_elemt batch_norm_gather_stats
        batch_norm_gather_stats_with_counts batch_norm_stats batch_norm_update_stats""",
    "it belongs to the compiler of TorchScript, whose graphs are not those of jitgraph; jit.load reads archives": """
        AggregationType AliasDb AnyType Argument ArgumentSpec AwaitType AVG SUM Block BoolType CallStack Capsule
        ClassType Code CompilationUnit CompleteArgumentSpec ComplexType ConcreteModuleType ConcreteModuleTypeBuilder
        DeepCopyMemoTable DeserializationStorageContext DictType EnumType ErrorReport ExecutionPlan FileCheck FloatType
        FunctionSchema FutureType Gradient Graph GraphExecutorState IODescriptor InferredType IntType InterfaceType
        JITException ListType LiteScriptModule LockingLogger LoggerBase Node NoneType NoopLogger NumberType
        OperatorInfo OptionalType PyObjectType PyTorchFileReader PyTorchFileWriter RRefType ScriptClass
        ScriptClassFunction ScriptDict ScriptDictIterator ScriptDictKeyIterator ScriptFunction ScriptList
        ScriptListIterator ScriptMethod ScriptModule ScriptModuleSerializer ScriptObject ScriptObjectProperty
        SerializationStorageContext StaticModule StringType SymBoolType SymIntType TensorType TracingState TupleType
        Type UnionType Use Value BufferDict ModuleDict ParameterDict import_ir_module import_ir_module_from_buffer
        merge_type_from_type_comment parse_ir parse_schema parse_type_comment unify_type_list classes cpp fork wait
        Future futures""",
    "it belongs to the machinery of PyTorch itself": """
        AcceleratorError BenchmarkConfig BenchmarkExecutionStats DeviceObjType DisableTorchFunction
        DisableTorchFunctionSubclass DispatchKey DispatchKeySet ExcludeDispatchKeyGuard FatalError PRIVATE_OPS Tag
        StreamObjType ThroughputBenchmark USE_GLOBAL_DEPS USE_RTLD_GLOBAL_WITH_LIBTORCH classproperty get_device_module
        get_file_path has_lapack has_mkl has_openmp has_spectral init_num_threads library monitor ops overrides
        prepare_multiprocessing_environment profiler_allow_cudagraph_cupti_lazy_reinit_cuda12 TYPE_CHECKING windows
        package quasirandom fx""",
    "it is a module of Python's that PyTorch imports": """
        builtins ctypes functools glob importlib inspect math os platform sys textwrap threading warnings torch
        torch_version""",
    "sizes that vary are named in traces: jg.trace(dynamic_shapes=...)": """
        SymBool SymFloat SymInt sym_constrain_range sym_constrain_range_for_size sym_float sym_fresh_size sym_int
        sym_ite sym_max sym_min sym_not sym_sqrt sym_sum""",
    "PyTorch removed it; torch.linalg has what took its place": "eig lstsq matrix_rank solve symeig",
    "PyTorch removed it: Variables are tensors, and torch.distributions has log_prob": "reinforce volatile",
    "axes have no names here": "index name",
    "it undoes a slice in PyTorch's own derivatives": "slice_inverse",
    "it hashes the bits of a tensor: hash(x.numpy().tobytes()) does": "hash_tensor",
    "it is a derivative of PyTorch's own": "native_norm",
    "gradients have the dtype of their tensors": "grad_dtype",
    "a tensor is the only output of what made it": "output_nr",
    "torch.autocast says what is cast; jg.amp has the rest": """
        clear_autocast_cache get_autocast_cpu_dtype get_autocast_gpu_dtype is_autocast_cache_enabled
        is_autocast_cpu_enabled set_autocast_cache_enabled set_autocast_cpu_dtype set_autocast_cpu_enabled
        set_autocast_dtype set_autocast_enabled set_autocast_gpu_dtype""",
    "torch.linalg.eigh gives all eigenvalues; lobpcg's iteration is not here": "lobpcg",
    "streams are those of torch.cuda: torch.cuda.Stream, torch.cuda.Event": "Event Stream",
}
"""Reasons, and the names of functions of ``torch`` and methods of ``Tensor`` that each is for."""


@functools.cache
def reasons() -> dict[str, str]:
    """Why a function or method of PyTorch is none here, by its name."""
    return {name: reason for reason, names in _GROUPS.items() for name in names.split()}


def reason_for(package: str, name: str) -> str | None:
    """Why ``name`` is none of a package of PyTorch's ("torch", "torch.nn"), where there is a reason."""
    own = module_reasons.OF_MODULES.get(package, {}).get(name)
    return reasons().get(name) if own is None and package == "torch" else own


def missing(owner: str, name: str) -> AttributeError:
    """The AttributeError for a name that ``owner`` ("Tensor", "torch.nn") lacks."""
    reason = reasons().get(name) if owner == "Tensor" else reason_for(owner, name)
    what = f"'{owner}' object has no attribute '{name}'" if owner == "Tensor" else f"module '{owner}' has no '{name}'"
    return AttributeError(what if reason is None else f"{what}: {reason}")
